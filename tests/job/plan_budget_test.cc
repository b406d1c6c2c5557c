#include "lib/job/plan_budget.h"

#include <gmock/gmock.h>

namespace relibra {
namespace {

BudgetTimes example() {
  return {.left = 4, .moves = 20'000, .reorder = 0.02, .cell = 0.002, .layers = 10, .cells = 500};
}

TEST(PlanBudget, TheExampleInTheHeader) {
  EXPECT_NEAR(double(moves_within_budget(example())), 200'000, 1);
}

TEST(PlanBudget, ThreadsShareLayersAndCells) {
  // 4 threads: 3 s - 125 cells * 2 ms = 2.75 s for 3 rounds of layers.
  BudgetTimes times = example();
  times.threads = 4;
  EXPECT_NEAR(double(moves_within_budget(times)), 2.75 / 3 / 1e-6, 1);
}

TEST(PlanBudget, NothingFitsWhereCellsTakeAll) {
  BudgetTimes times = example();
  times.cells = 2000;
  EXPECT_EQ(moves_within_budget(times), 0);
  times = example();
  times.left = -1;
  EXPECT_EQ(moves_within_budget(times), 0);
}

TEST(PlanBudget, ARankWithoutLayersDoesNotHoldTheOthersBack) {
  EXPECT_EQ(moves_within_budget({.left = 1e-9}), 50'000'000);
}

TEST(PlanBudget, SearchesAreTimedUntilTheyAreNoticeable) {
  // 1 us a move and 1 ms to start; 10 layers share 4 s: the next search may take at most 400 ms / 8 = 50 ms.
  BudgetTimes times = example();
  std::vector<std::int64_t> timed;
  time_searches(times, [&](std::int64_t moves) {
    timed.push_back(moves);
    return 0.001 + 1e-6 * double(moves);
  });
  EXPECT_THAT(timed, testing::ElementsAre(5'000, 20'000));  // 21 ms; 80 000 would take 81 ms
  EXPECT_EQ(times.moves, 20'000);
  EXPECT_NEAR(times.reorder, 0.021, 1e-9);
}

TEST(PlanBudget, TimingEndsWhereMovesCostNothing) {
  BudgetTimes times = example();
  time_searches(times, [](std::int64_t) { return 0.0; });
  EXPECT_LE(moves_within_budget(times), 50'000'000);
}

}  // namespace
}  // namespace relibra
