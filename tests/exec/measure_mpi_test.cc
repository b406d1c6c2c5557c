// Repeats, controls and emulated ranks: what is measured is complete, in order and of the right rank.
#include "lib/exec/measure.h"

#include <gtest/gtest.h>

#include "kernels/registry.h"
#include "lib/exec/emulate.h"
#include "lib/exec/figures.h"
#include "tests/support/execution.h"

namespace relibra::exec {
namespace {

using relibra::testing::Execution;
using relibra::testing::execution_case;

const ModelShape kShape{.hidden = 16, .intermediate = 8};

TEST(Measure, EveryPhaseOfEveryVisitAndRank) {
  const Comm comm = Comm::world();
  const auto input = execution_case(41, {.topology = {comm.size(), 1, comm.size()}});
  Execution execution(comm, input, kShape);
  execution.prepare();
  std::vector<StepTimes> last;
  const std::vector<NamedSchedule> variants{{"plan", &execution.schedule}, {"again", &execution.schedule}};
  const auto measured = measure(comm, execution.device, *execution.transport, variants, kShape,
                                *execution.buffers, {.warm_up = 1, .repeats = 3}, &last);
  ASSERT_EQ(measured.size(), 2u);
  for (const Measured& m : measured) {
    EXPECT_EQ(m.step.size(), 3u);
    EXPECT_EQ(m.visits.size(), 8u);  // 2 micro-batches, 2 layers, there and back
    ASSERT_EQ(m.seconds.size(), static_cast<std::size_t>(comm.size()) * 8 * kPhases);
    for (const double seconds : m.seconds) EXPECT_GE(seconds, 0);
    EXPECT_GT(m.mean(Phase::compute), 0);
    EXPECT_GE(m.slowest(Phase::compute, comm.size()), m.mean(Phase::compute) * 0.999);
    EXPECT_GT(m.step_seconds(), m.mean(Phase::compute) * 0.5);
  }
  ASSERT_EQ(last.size(), 2u);
  const auto everyone = gather_times(comm, last[0]);
  ASSERT_EQ(everyone.size(), static_cast<std::size_t>(comm.size()));
  for (const StepTimes& times : everyone)
    for (const VisitTimes& visit : times.visits)
      for (std::size_t m = 1; m < kMarks; ++m) EXPECT_LE(visit.at[m - 1], visit.at[m]);
}

TEST(Measure, SlowestSumsOverVisitsAndGroups) {
  // Two groups of 2, two visits; compute seconds by rank and visit: 1 2 | 3 4 / 5 1 | 1 1.
  Measured m{.variant = "plan", .ranks = 4, .visits = std::vector<Visit>(2)};
  m.seconds.assign(4 * 2 * kPhases, 0);
  const double seconds[4][2] = {{1, 5}, {2, 1}, {3, 1}, {4, 1}};
  for (std::size_t r = 0; r < 4; ++r)
    for (std::size_t v = 0; v < 2; ++v)
      m.seconds[(r * 2 + v) * kPhases + static_cast<std::size_t>(Phase::compute)] = seconds[r][v];
  // Group 0: 2 + 5, group 1: 4 + 1; the mean of the groups is 6. Mean over ranks: 18 / 4.
  EXPECT_DOUBLE_EQ(m.slowest(Phase::compute, 2), 6);
  EXPECT_DOUBLE_EQ(m.mean(Phase::compute), 4.5);
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
}

/// A plan for more ranks than there are processes.
TEST(Emulate, AllRanksOfAPlanOnFewProcesses) {
  const Comm comm = Comm::world();
  const auto input = execution_case(42, {.topology = {6, 1, 2}});
  auto source = input.source();
  const auto selection = relibra::testing::select_all(input.plan);
  const auto ranks = carried_ranks(input.plan.header.topology, comm.rank(), comm.size());
  const auto sources = collect_routes(source, input.plan, selection, ranks);
  std::vector<CarriedSchedules> variants;
  variants.push_back({"plan", build_schedules(comm, input.plan, input.cells, sources, selection, {})});
  const Plan contiguous = static_plan(input.plan);
  variants.push_back({"balanced", build_schedules(comm, contiguous, empty_cells(input.cells.cells), sources,
                                                  selection, {.evenly = true})});
  const auto figures = gather_figures(comm, variants[0].ranks, 6);
  const auto even = gather_figures(comm, variants[1].ranks, 6);
  ASSERT_EQ(figures.size(), 6u * 4);
  for (std::size_t c = 0; c < 4; ++c) {
    std::int64_t planned = 0, balanced = 0, least = 1 << 30, most = 0;
    for (std::size_t r = 0; r < 6; ++r) {
      EXPECT_EQ(figures[r * 4 + c].assignments, input.cells.rank_tokens[c * 6 + r]);
      planned += figures[r * 4 + c].assignments;
      balanced += even[r * 4 + c].assignments;
      least = std::min(least, even[r * 4 + c].assignments);
      most = std::max(most, even[r * 4 + c].assignments);
    }
    EXPECT_EQ(planned, balanced);
    EXPECT_LE(most - least, 1);
  }
  const Device device(kernels::reference_backend());
  const Stream stream(device);
  RankBuffers buffers(device, emulated_sizes(variants), kShape);
  fill_plausibly(stream, kShape, buffers);
  const auto measured = emulate(comm, device, variants, kShape, buffers, {.warm_up = 0, .repeats = 2});
  ASSERT_EQ(measured.size(), 2u);
  EXPECT_EQ(measured[0].ranks, 6);
  for (RankId r : all<RankId>(6))
    for (std::size_t v = 0; v < measured[0].visits.size(); ++v) {
      EXPECT_GT(measured[0].at(r, v, Phase::compute), 0);
      EXPECT_EQ(measured[0].at(r, v, Phase::dispatch), 0);
    }
}

}  // namespace
}  // namespace relibra::exec
