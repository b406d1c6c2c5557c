#pragma once
// One cell, the K ids of a row and layer, looked at id by id: what the fast kernels fall back to where
// something is missing or wrong.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "lib/count/rows.h"

namespace relibra {

class CellScanner {
 public:
  explicit CellScanner(const RowShape& shape)
      : shape_(shape), seen_(static_cast<std::size_t>(shape.experts)) {}

  /// Calls recorded(id) for each valid id; the rest goes to the tally. Returns how many are missing.
  template <class T, class F>
  int scan(const T* cell, std::int64_t row, std::int32_t layer, RowTally& tally, F&& recorded) {
    if (++stamp_ == 0) {
      std::fill(seen_.begin(), seen_.end(), 0);
      stamp_ = 1;
    }
    int missing = 0;
    for (int k = 0; k < shape_.top_k; ++k) {
      const auto id = static_cast<std::int64_t>(cell[k]);
      if (id < 0 || id == shape_.missing_id) {
        ++missing;
      } else if (id >= shape_.experts) {
        tally.add_fault({row, layer, RowTally::Kind::out_of_range, id});
      } else if (auto& seen = seen_[static_cast<std::size_t>(id)]; seen == stamp_) {
        tally.add_fault({row, layer, RowTally::Kind::repeated, id});
      } else {
        seen = stamp_;
        recorded(id);
      }
    }
    tally.missing += missing;
    return missing;
  }

 private:
  RowShape shape_;
  std::vector<std::uint32_t> seen_;  ///< (E) stamp of the last cell that had the expert
  std::uint32_t stamp_ = 0;
};

}  // namespace relibra
