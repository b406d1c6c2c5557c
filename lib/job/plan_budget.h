#pragma once
// How many search moves fit into a time budget.
#include <cstdint>

namespace relibra {

/// What was timed, and what is left to do, as one rank sees it. Seconds.
struct BudgetTimes {
  double left = 0;           ///< of the budget, after timing
  double few = 0, more = 0;  ///< one layer's reordering with kFewMoves and with kMoreMoves
  double cell = 0;           ///< planning one cell
  std::int64_t layers = 0;   ///< owned layers
  std::int64_t cells = 0;    ///< cells of the owned layers
  int threads = 1;
};
inline constexpr std::int64_t kFewMoves = 2'000, kMoreMoves = 20'000;

/// The moves a layer with which this rank ends in time, a quarter of the time left kept as reserve; 0 where
/// nothing fits. A rank without layers holds nobody back. Ranks then agree on the least.
///
/// Example: 4 s left, 3 ms and 21 ms for 2 000 and 20 000 moves (1 us a move and 1 ms to start), 2 ms a cell,
/// 10 layers, 500 cells: 3 s - 1 s of cells leave 200 ms a layer: 199 000 moves.
std::int64_t moves_within_budget(const BudgetTimes& times);

}  // namespace relibra
