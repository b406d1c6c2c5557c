#pragma once
// How many search moves fit into a time budget.
#include <cstdint>
#include <functional>

namespace relibra {

/// What was timed, and what is left to do, as one rank sees it. Seconds.
struct BudgetTimes {
  double left = 0;          ///< of the budget
  std::int64_t moves = 0;   ///< of the search timed
  double reorder = 0;       ///< reordering one layer with that many moves
  double cell = 0;          ///< planning one cell
  std::int64_t layers = 0;  ///< owned layers
  std::int64_t cells = 0;   ///< cells of the owned layers
  int threads = 1;
};

/// The moves a layer with which this rank ends in time, a quarter of the time left kept as reserve; 0 where
/// nothing fits. A rank without layers holds nobody back. Ranks then agree on the least. Time is taken as
/// proportional to moves, which is a little more than they need, since a search also has a start.
///
/// Example: 4 s left, 20 ms for 20 000 moves (1 us a move), 2 ms a cell, 10 layers, 500 cells: 3 s - 1 s of
/// cells leave 200 ms a layer: 200 000 moves.
std::int64_t moves_within_budget(const BudgetTimes& times);

/// Times longer and longer searches, by `seconds_for(moves)`, until the next would take a noticeable part of
/// one layer's share of the budget; short ones say little on a busy machine. Fills moves and reorder.
void time_searches(BudgetTimes& times, const std::function<double(std::int64_t)>& seconds_for);

}  // namespace relibra
