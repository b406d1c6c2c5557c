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
  const double a_move = std::max((times.more - times.few) / double(kMoreMoves - kFewMoves), 1e-9);
  const double start = std::max(times.few - a_move * double(kFewMoves), 0.0);
  const double stage_2 = times.cell * rounds(times.cells, times.threads);
  const double a_layer = (times.left * kUsable - stage_2) / rounds(times.layers, times.threads);
  return static_cast<std::int64_t>(std::clamp((a_layer - start) / a_move, 0.0, kMostMoves));
}

}  // namespace relibra
