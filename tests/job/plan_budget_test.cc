#include "lib/job/plan_budget.h"

#include <gtest/gtest.h>

namespace relibra {
namespace {

BudgetTimes example() {
  return {.left = 4, .few = 0.003, .more = 0.021, .cell = 0.002, .layers = 10, .cells = 500};
}

TEST(PlanBudget, TheExampleInTheHeader) {
  EXPECT_NEAR(double(moves_within_budget(example())), 199'000, 1);
}

TEST(PlanBudget, ThreadsShareLayersAndCells) {
  // 4 threads: 3 s - 125 cells * 2 ms = 2.75 s for 3 rounds of layers.
  BudgetTimes times = example();
  times.threads = 4;
  EXPECT_NEAR(double(moves_within_budget(times)), (2.75 / 3 - 0.001) / 1e-6, 1);
}

TEST(PlanBudget, NothingFitsWhereCellsTakeAll) {
  BudgetTimes times = example();
  times.cells = 2000;
  EXPECT_EQ(moves_within_budget(times), 0);
  times = example();
  times.left = -1;
  EXPECT_EQ(moves_within_budget(times), 0);
}

TEST(PlanBudget, NoiseInTheTimesGivesNoNonsense) {
  BudgetTimes times = example();
  times.more = 0.001;  // faster with more moves
  const auto moves = moves_within_budget(times);
  EXPECT_GT(moves, 0);
  EXPECT_LE(moves, 50'000'000);
}

TEST(PlanBudget, ARankWithoutLayersDoesNotHoldTheOthersBack) {
  EXPECT_EQ(moves_within_budget({.left = 1e-9}), 50'000'000);
}

}  // namespace
}  // namespace relibra
