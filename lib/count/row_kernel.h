#pragma once
// Counting the rows of one sequence: the inner loop of reading a dump. Local, one thread.
#include <cstdint>
#include <limits>
#include <vector>

#include "lib/base/share.h"
#include "lib/model/routing.h"

namespace relibra {

/// What a kernel has to know of a dump. A row is (L, K) ids.
struct RowShape {
  int layers = 0;               ///< L
  int top_k = 0;                ///< K
  int experts = 0;              ///< E
  std::int64_t missing_id = 0;  ///< as MissingRule has it

  explicit RowShape(const RoutingHeader& header)
      : layers(header.num_layers()),
        top_k(header.top_k),
        experts(header.num_experts),
        missing_id(MissingRule(header).missing_id) {}

  std::int64_t row_ids() const { return std::int64_t{layers} * top_k; }
};

/// What was wrong or absent in the rows seen. Tallies add up in any order to the same value.
struct RowTally {
  enum class Kind : std::int32_t { out_of_range, repeated };
  struct Place {
    std::int64_t row = std::numeric_limits<std::int64_t>::max();  ///< of the joined dump
    std::int32_t layer = 0;
    Kind kind = Kind::out_of_range;
    std::int64_t id = 0;
  };

  std::int64_t missing = 0;       ///< routes not recorded
  std::int64_t out_of_range = 0;  ///< ids >= E that are not missing_id
  std::int64_t repeated = 0;      ///< ids that stood before in the same row and layer
  Place first;                    ///< lowest (row, layer, kind) of all faults

  std::int64_t faults() const { return out_of_range + repeated; }
  void add_fault(const Place& place);
  void operator+=(const RowTally& other);
};

/// Consecutive rows of one sequence.
struct RowSpan {
  IdType type = IdType::i32;
  const void* ids = nullptr;  ///< (rows, L, K)
  std::int64_t rows = 0;
  std::int64_t first_row = 0;  ///< in the joined dump
};

/// Counts spans of rows for some layers of a dump, one object a thread.
///
/// Example: E = 4, K = 2, one layer, rows (0 3) (3 1): table = 1 1 0 2.
class RowKernel {
 public:
  RowKernel(const RowShape& shape, Range layers);

  /// table (layers.size(), E) += counts of the rows; what is missing or wrong goes to tally(). Where there
  /// are faults the table is of no use.
  void count(const RowSpan& rows, std::uint32_t* table);

  const RowTally& tally() const { return tally_; }

 private:
  template <class T>
  void count_scalar(const T* ids, const RowSpan& rows, std::uint32_t* table);

  RowShape shape_;
  Range layers_;
  RowTally tally_;
  std::vector<std::uint32_t> seen_;  ///< (E) stamp of the last (row, layer) that had the expert
  std::uint32_t stamp_ = 0;
};

}  // namespace relibra
