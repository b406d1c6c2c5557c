#pragma once
// How many search moves fit into a time budget.
#include <cstdint>
#include <functional>

namespace relibra {

/// What the rest of a plan costs, as one rank sees it.
struct BudgetWork {
  double seconds_left = 0;
  std::int64_t layers = 0;  ///< owned layers
  std::int64_t cells = 0;   ///< cells of the owned layers
  int threads = 1;
  std::function<void(std::int64_t)> reorder;  ///< reorders one owned layer with that many moves
  std::function<void()> plan_cell;            ///< plans one cell of that layer
};

/// Local. Times a few short searches and cells, and returns the moves a layer with which this rank ends in
/// time; 0 where nothing fits. A quarter of the time left is kept as reserve. Ranks then agree on the least.
std::int64_t moves_within_budget(const BudgetWork& work);

}  // namespace relibra
