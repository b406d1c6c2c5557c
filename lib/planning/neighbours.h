#pragma once
// Which items are alike: a swap of two such items changes the bins' loads little, so it is far more often
// worth making than one of two items drawn blindly.
#include <cstdint>
#include <vector>

#include "lib/planning/bins.h"

namespace relibra {

/// For each item the `near` others at the least Euclidean distance over cells, nearest first; (items, near).
/// Where `with_dummy`, number loads.items() stands for any dummy item and counts as one of the others. `near`
/// is cut to the number of others.
class Neighbours {
 public:
  Neighbours(const ItemLoads& loads, int near, bool with_dummy);
  int near() const { return near_; }
  /// Mean over items and their neighbours of the squared distance.
  double mean_square_distance() const { return mean_square_distance_; }
  const std::int32_t* of(int item) const { return data_.data() + static_cast<std::size_t>(item * near_); }

 private:
  int near_;
  double mean_square_distance_ = 0;
  std::vector<std::int32_t> data_;
};

}  // namespace relibra
