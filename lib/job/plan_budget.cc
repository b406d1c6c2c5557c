#include "lib/job/plan_budget.h"

#include <algorithm>

namespace relibra {
namespace {

constexpr double kUsable = 0.75;
constexpr double kMostMoves = 50e6;  // a layer: far beyond any gain

/// Items of one thread when `threads` share `items`.
double rounds(std::int64_t items, int threads) {
  return static_cast<double>((items + threads - 1) / threads);
}

}  // namespace

std::int64_t moves_within_budget(const BudgetTimes& times) {
  if (times.layers == 0) return static_cast<std::int64_t>(kMostMoves);
  const double a_move = std::max(times.reorder / double(times.moves), 1e-9);
  const double stage_2 = times.cell * rounds(times.cells, times.threads);
  const double a_layer = (times.left * kUsable - stage_2) / rounds(times.layers, times.threads);
  return static_cast<std::int64_t>(std::clamp(a_layer / a_move, 0.0, kMostMoves));
}

void time_searches(BudgetTimes& times, const std::function<double(std::int64_t)>& seconds_for) {
  constexpr std::int64_t kFirst = 5'000, kGrowth = 4;
  constexpr double kNoticeable = 1.0 / 8;
  const double share = times.left / rounds(times.layers, times.threads);
  for (times.moves = kFirst;; times.moves *= kGrowth) {
    times.reorder = seconds_for(times.moves);
    if (times.reorder * kGrowth > share * kNoticeable || double(times.moves * kGrowth) > kMostMoves) return;
  }
}

}  // namespace relibra
