// Experts that move between two plans: weights and both moments, bit for bit; then a step on what arrived.
#include "lib/exec/reorder.h"

#include <gtest/gtest.h>

#include "tests/support/execution.h"

namespace relibra::exec {
namespace {

using relibra::testing::Execution;
using relibra::testing::execution_case;
using relibra::testing::step_backends;

TEST(Reorder, ExpertsMoveWithTheirMomentsAndTheStepIsRight) {
  const Comm comm = Comm::world();
  for (const kernels::Backend* backend : step_backends(comm))
    for (const int groups : {1, 2}) {
      if (comm.size() % groups != 0) continue;
      const Topology topology{comm.size() / groups, groups, 1};
      const auto before = execution_case(31, {.topology = topology}, 1);
      const auto input = execution_case(31, {.topology = topology}, 2);
      Execution execution(comm, input, {.hidden = 16, .intermediate = 8}, {.backend = backend});
      execution.prepare();
      // What prepare() loaded must not help.
      fill_plausibly(execution.engine->stream(), execution.shape, *execution.buffers);
      const PlacementBefore was{before.plan.placement, before.plan.slot_expert,
                                before.plan.header.slots_per_rank};
      const ReorderResult result = reorder_experts(
          comm, *execution.transport, execution.engine->stream(), input.plan, was, execution.selection.layers,
          execution.shape, execution.generator, *execution.buffers, true);
      EXPECT_EQ(result.wrong, 0);
      std::int64_t moved = 0;
      for (const Move& move : moves_between(before.plan.placement, input.plan.placement))
        moved += move.from != move.to;
      EXPECT_EQ(result.moves, moved);
      // Weights and two float32 moments of 3*16*8 elements, from each group's home.
      EXPECT_EQ(result.bytes, moved * groups * 3 * 16 * 8 * (4 + 8));
      const auto report = verify_step(comm, *execution.engine, execution.schedule, execution.shape,
                                      execution.generator, execution.sources[0], *execution.buffers,
                                      home_experts(input.plan, execution.selection, execution.schedule.rank),
                                      input.plan.header.num_experts);
      EXPECT_TRUE(report.passed());
    }
}

// A plan with more home slots before than after, as policies that spread homes unevenly write.
TEST(Reorder, FromAPlanWithMoreSlots) {
  const Comm comm = Comm::world();
  const Topology topology{comm.size(), 1, comm.size()};
  const auto input = execution_case(32, {.topology = topology});
  Placement all_on_rank_0(2, 8);
  std::vector<ExpertId> slots(static_cast<std::size_t>(2 * comm.size() * 8));
  for (LayerId l : all<LayerId>(2))
    for (ExpertId e : all<ExpertId>(8)) {
      all_on_rank_0.home(l, e) = EpRankId(0);
      slots[l.index() * static_cast<std::size_t>(comm.size()) * 8 + e.index()] = e;
    }
  Execution execution(comm, input, {.hidden = 8, .intermediate = 8});
  execution.prepare();
  const ReorderResult result = reorder_experts(
      comm, *execution.transport, execution.engine->stream(), input.plan, {all_on_rank_0, slots, 8},
      execution.selection.layers, execution.shape, execution.generator, *execution.buffers, true);
  EXPECT_EQ(result.wrong, 0);
}

}  // namespace
}  // namespace relibra::exec
