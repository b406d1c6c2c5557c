#include "lib/job/plan.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "lib/base/random.h"
#include "lib/model/memory_source.h"

namespace relibra {
namespace {

/// S sequences of 0 to 30 rows whose experts lean towards low ids, another lean per layer and sequence.
/// `micro_batches`: fixed in the dump, dealt in turn; 0: open.
MemorySource skewed_routing(int sequences, int layers, int experts, int top_k, std::uint64_t seed,
                            int micro_batches = 0) {
  Random random(seed);
  RoutingDump dump;
  dump.header = {.step = 7, .num_experts = experts, .top_k = top_k};
  for (int l = 0; l < layers; ++l) dump.header.layers.push_back(3 + l);
  std::vector<std::uint16_t> ids;
  for (int s = 0; s < sequences; ++s) {
    const int rows = static_cast<int>(random.below(31));
    dump.sequences.row_offset.push_back(dump.sequences.row_offset.back() + rows);
    dump.sequences.group.push_back(s / 4);
    if (micro_batches > 0) dump.sequences.micro_batch.push_back(s % micro_batches);
    for (int cell = 0; cell < rows * layers; ++cell) {
      const auto start = static_cast<int>(random.uniform() * random.uniform() * experts);
      for (int k = 0; k < top_k; ++k)
        ids.push_back(static_cast<std::uint16_t>((start + k * (1 + s % 3)) % experts));
    }
  }
  return MemorySource(dump, ids);
}

PlanResult planned(const Comm& comm, RoutingSource& source, const PlanOptions& options,
                   const PreviousPlan* previous = nullptr) {
  return plan_step(comm, source.dump(), count_routing(comm, source, {}), options, previous,
                   [](std::string_view, double) {});
}

PlanOptions small_options() {
  return {.topology = {.ep_size = 4, .ep_groups = 2, .gpus_per_node = 2},
          .effort = 500,
          .seed = 5,
          .pack = {.micro_batches = 6}};
}

void expect_same(const PlanResult& a, const PlanResult& b, const Comm& comm) {
  EXPECT_EQ(a.plan.placement, b.plan.placement);
  EXPECT_EQ(a.plan.previous, b.plan.previous);
  EXPECT_EQ(a.plan.slot_expert, b.plan.slot_expert);
  EXPECT_EQ(a.plan.micro_batch, b.plan.micro_batch);
  EXPECT_EQ(a.plan.source_rank, b.plan.source_rank);
  EXPECT_EQ(a.plan.header.dump_digest, b.plan.header.dump_digest);
  EXPECT_EQ(a.plan.header.search_moves, b.plan.header.search_moves);
  const auto joined = [&](const auto& mine) {
    using T = typename std::remove_cvref_t<decltype(mine)>::value_type;
    return comm.gather_all(std::span<const T>(mine));
  };
  EXPECT_EQ(joined(a.mine.copies), b.mine.copies);
  EXPECT_EQ(joined(a.mine.split), b.mine.split);
  EXPECT_EQ(joined(a.mine.transfer), b.mine.transfer);
  EXPECT_EQ(joined(a.mine.rank_tokens), b.mine.rank_tokens);
  EXPECT_EQ(joined(a.mine.rank_tokens_static), b.mine.rank_tokens_static);
}

TEST(Plan, IsTheSameForAnyNumberOfRanks) {
  auto source = skewed_routing(40, 5, 13, 3, 1);
  for (const char* policy : {"relibra", "relibra-reorder", "relibra-replicate", "static"}) {
    PlanOptions options = small_options();
    options.policy = policy;
    expect_same(planned(Comm::world(), source, options), planned(Comm(MPI_COMM_SELF), source, options),
                Comm::world());
  }
}

TEST(Plan, RepackedIsTheSameForAnyNumberOfRanksToo) {
  auto source = skewed_routing(90, 5, 13, 3, 8);
  PlanOptions options = small_options();
  const auto plain = planned(Comm::world(), source, options);
  options.repack = true;
  const auto repacked = planned(Comm::world(), source, options);
  expect_same(repacked, planned(Comm(MPI_COMM_SELF), source, options), Comm::world());
  EXPECT_NE(repacked.plan.micro_batch, plain.plan.micro_batch);
  EXPECT_EQ(repacked.plan.placement, plain.plan.placement);
}

TEST(Plan, NoTokenIsLostAndTheSlowestRankGains) {
  auto source = skewed_routing(64, 3, 16, 2, 2);
  const PlanOptions options = small_options();
  const auto result = planned(Comm(MPI_COMM_SELF), source, options);
  const auto world = static_cast<std::size_t>(options.topology.world());
  std::int64_t before = 0, after = 0, total_before = 0, total_after = 0;
  for (std::size_t q = 0; q < static_cast<std::size_t>(result.mine.cells.size()); ++q) {
    const std::span now(result.mine.rank_tokens.data() + q * world, world);
    const std::span was(result.mine.rank_tokens_static.data() + q * world, world);
    for (std::size_t r = 0; r < world; ++r) {
      total_before += was[r];
      total_after += now[r];
    }
    before += *std::max_element(was.begin(), was.end());
    after += *std::max_element(now.begin(), now.end());
  }
  EXPECT_EQ(total_after, source.dump().sequences.total_rows() * 3 * 2);
  EXPECT_EQ(total_before, total_after);
  EXPECT_LT(after, before * 8 / 10);
}

TEST(Plan, StartsFromThePlanBeforeAndAHighPriceKeepsExpertsInPlace) {
  auto source = skewed_routing(40, 2, 16, 2, 3);
  auto next = skewed_routing(40, 2, 16, 2, 4);
  PlanOptions options = small_options();
  const auto first = planned(Comm::world(), source, options);
  const PreviousPlan previous = previous_of(first.plan);
  options.move_cost = 1e12;
  const auto second = planned(Comm::world(), next, options, &previous);
  EXPECT_EQ(second.plan.previous, first.plan.placement);
  EXPECT_EQ(second.plan.placement, first.plan.placement);
  EXPECT_EQ(second.plan.slot_expert, first.plan.slot_expert);
  options.move_cost = 0;
  EXPECT_NE(planned(Comm::world(), next, options, &previous).plan.placement, first.plan.placement);
}

TEST(Plan, ATimeBudgetRecordsTheMovesThatMakeItAgain) {
  auto source = skewed_routing(40, 3, 16, 2, 5);
  PlanOptions options = small_options();
  options.time_budget = 0.3;
  const auto timed = planned(Comm::world(), source, options);
  options.time_budget = 0;
  options.effort = timed.plan.header.search_moves;
  const auto again = planned(Comm::world(), source, options);
  EXPECT_EQ(again.plan.placement, timed.plan.placement);
  EXPECT_EQ(again.mine.copies, timed.mine.copies);
}

class FallBack : public testing::TestWithParam<const char*> {};

/// The budget ends in the phase GetParam(), on the last rank: what the others have is dropped too.
TEST_P(FallBack, KeepsTheHomesAndMakesNoCopies) {
  auto source = skewed_routing(40, 6, 16, 2, 3);
  auto next = skewed_routing(40, 6, 16, 2, 4);
  PlanOptions options = small_options();
  const auto first = planned(Comm::world(), source, options);
  const PreviousPlan previous = previous_of(first.plan);
  options.time_budget = 0.4;
  options.fall_back = true;
  bool slept = false;
  const auto slow = [&](std::string_view phase, double) {
    if (phase != GetParam() || slept || Comm::world().rank() + 1 < Comm::world().size()) return;
    slept = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  };
  const auto late =
      plan_step(Comm::world(), next.dump(), count_routing(Comm::world(), next, {}), options, &previous, slow);
  EXPECT_TRUE(late.fell_back);
  EXPECT_EQ(late.plan.placement, first.plan.placement);
  EXPECT_EQ(late.plan.slot_expert, first.plan.slot_expert);
  EXPECT_EQ(Comm::world().sum(static_cast<std::int64_t>(late.mine.copies.size())), 0);
  // Every assignment is still computed, and the plan is one that the next step can start from.
  std::int64_t tokens = 0;
  for (const std::int64_t t : late.mine.rank_tokens) tokens += t;
  EXPECT_EQ(Comm::world().sum(tokens), next.dump().sequences.total_rows() * 6 * 2);
  EXPECT_EQ(late.plan.header.slots_per_rank, first.plan.header.slots_per_rank);
  const PreviousPlan after = previous_of(late.plan);
  options.time_budget = 0;
  EXPECT_FALSE(planned(Comm::world(), source, options, &after).fell_back);
}
INSTANTIATE_TEST_SUITE_P(In, FallBack, testing::Values("pack", "reorder", "replicate"));

TEST(Plan, ABudgetThatIsKeptOrNotWantedDoesNotFallBack) {
  auto source = skewed_routing(40, 2, 16, 2, 3);
  PlanOptions options = small_options();
  options.time_budget = 1e-6;
  EXPECT_FALSE(planned(Comm::world(), source, options).fell_back);
  options.fall_back = true;
  EXPECT_TRUE(planned(Comm::world(), source, options).fell_back);
}

/// The message of the agreed usage error that planning ends with.
std::string refusal(const PlanOptions& options, RoutingSource& source,
                    const PreviousPlan* previous = nullptr) {
  try {
    planned(Comm::world(), source, options, previous);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_TRUE(error.agreed());
    return error.what();
  }
  return "no error";
}

TEST(Plan, ContradictionsAreRefusedByTheOptionsName) {
  using testing::HasSubstr;
  auto source = skewed_routing(8, 2, 16, 2, 6);
  PlanOptions options = small_options();
  options.topology.gpus_per_node = 3;
  EXPECT_THAT(refusal(options, source), HasSubstr("--gpus-per-node"));
  options = small_options();
  options.tolerance = -1;
  EXPECT_THAT(refusal(options, source), HasSubstr("--tolerance"));
  options = small_options();
  options.policy = "best";
  EXPECT_THAT(refusal(options, source), HasSubstr("--policy"));
  options = small_options();
  options.pack = {};
  EXPECT_THAT(refusal(options, source), HasSubstr("--micro-batches"));

  options = small_options();
  PreviousPlan previous = previous_of(planned(Comm::world(), source, options).plan);
  previous.layers.back() += 1;
  EXPECT_THAT(refusal(options, source, &previous), HasSubstr("model block 4"));
  options.topology.ep_size = 8;
  EXPECT_THAT(refusal(options, source, &previous), HasSubstr("--previous"));

  MemorySource fixed = skewed_routing(8, 2, 16, 2, 6, /*micro_batches=*/6);
  options = small_options();
  options.repack = true;
  EXPECT_THAT(refusal(options, fixed), HasSubstr("--repack"));

  RoutingDump dump = source.dump();
  dump.sequences.source_rank.assign(8, 9);
  options = small_options();
  try {
    plan_step(Comm::world(), dump, count_routing(Comm::world(), source, {}), options, nullptr,
              [](auto, auto) {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("source rank 9"));
  }
}

}  // namespace
}  // namespace relibra
