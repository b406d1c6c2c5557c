#include "lib/job/plan_budget.h"

#include <algorithm>

#include "lib/base/timer.h"

namespace relibra {
namespace {

constexpr double kUsable = 0.75;
constexpr std::int64_t kMostMoves = 50'000'000;  // a layer: far beyond any gain
constexpr std::int64_t kFewMoves = 2'000, kMoreMoves = 20'000;
constexpr int kTimedCells = 4;

double timed(const std::function<void()>& work) {
  Timer timer;
  work();
  return timer.seconds();
}

/// Items of one thread when `threads` share `items`.
double rounds(std::int64_t items, int threads) {
  return static_cast<double>((items + threads - 1) / threads);
}

}  // namespace

std::int64_t moves_within_budget(const BudgetWork& work) {
  if (work.layers == 0) return kMostMoves;
  Timer calibration;
  const double few = timed([&] { work.reorder(kFewMoves); });
  const double more = timed([&] { work.reorder(kMoreMoves); });
  const double cells = timed([&] {
    for (int i = 0; i < kTimedCells; ++i) work.plan_cell();
  });
  const double a_move = std::max((more - few) / double(kMoreMoves - kFewMoves), 1e-9);
  const double a_start = std::max(few - a_move * double(kFewMoves), 0.0);
  const double stage_2 = cells / kTimedCells * rounds(work.cells, work.threads);
  const double a_layer =
      ((work.seconds_left - calibration.seconds()) * kUsable - stage_2) / rounds(work.layers, work.threads);
  return static_cast<std::int64_t>(std::clamp((a_layer - a_start) / a_move, 0.0, double(kMostMoves)));
}

}  // namespace relibra
