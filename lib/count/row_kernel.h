#pragma once
// Counting the rows of one sequence: the inner loop of reading a dump. Local, one thread.
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/share.h"
#include "lib/count/cell_scan.h"
#include "lib/count/onehot.h"
#include "lib/count/row_check.h"
#include "lib/count/rows.h"

namespace relibra {

/// Counts spans of rows for some layers of a dump, one object a thread.
///
/// Example: E = 4, K = 2, one layer, rows (0 3) (3 1): table = 1 1 0 2.
class RowKernel {
 public:
  /// How: id by id, or by bits (onehot.h). The results are the same.
  enum class Method { table, one_hot };
  static Method best_method(const RowShape& shape, IdType type);

  RowKernel(const RowShape& shape, IdType type, Range layers)
      : RowKernel(shape, type, layers, best_method(shape, type)) {}
  RowKernel(const RowShape& shape, IdType type, Range layers, Method method);

  /// table (layers.size(), E) += counts of the rows; what is missing or wrong goes to tally(). Where there
  /// are faults the table is of no use. rows.type is the type given.
  void count(const RowSpan& rows, std::uint32_t* table);

  const RowTally& tally() const { return tally_; }

 private:
  /// Rows whose bits are added up before they are looked at.
  template <class T>
  struct Tile {
    const T* ids;  ///< of the first row and the first of this object's layers
    std::int64_t first_row;
    int rows;
    int by_bits = 0;  ///< of the rows, the rest is done
    std::array<std::uint32_t, OneHotCounter::kTileRows / OneHotCounter::kRows> present{};  ///< which
    bool has(int row) const {
      return (present[static_cast<std::size_t>(row / OneHotCounter::kRows)] >> row % OneHotCounter::kRows &
              1) != 0;
    }
  };

  std::int64_t layer_ids() const { return layers_.size() * shape_.top_k; }
  template <class T>
  void count_by_table(const T* ids, const RowSpan& rows, std::uint32_t* table);
  template <class T>
  void count_by_bits(const T* ids, const RowSpan& rows, std::uint32_t* table);
  template <class T>
  std::uint32_t add_rows(const T* ids, std::int64_t first_row, int rows, std::uint32_t* table);
  template <class T>
  void explain(const Tile<T>& tile);
  /// Id by id; the table may be null. Returns how many are missing.
  template <class T>
  int scan(const T* cell, std::int64_t row, std::int64_t layer, std::uint32_t* table);

  RowShape shape_;
  Range layers_;
  Method method_;
  RowTally tally_;
  CellScanner scanner_;
  RepeatCheck repeats_;
  std::optional<OneHotCounter> bits_;
  std::vector<std::uint32_t> sums_;   ///< (layers) of a tile
  std::vector<std::uint8_t> narrow_;  ///< (16, L, K) ids of wider types as bytes
};

}  // namespace relibra
