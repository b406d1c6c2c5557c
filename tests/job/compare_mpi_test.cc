#include "lib/job/compare.h"

#include <gmock/gmock.h>

#include "lib/base/error.h"
#include "lib/cost/prices.h"
#include "lib/job/compare_report.h"
#include "lib/job/compare_work.h"
#include "lib/job/fetch_cells.h"
#include "lib/workload/workload.h"
#include "tests/support/hand_plan.h"

namespace relibra {
namespace {

using testing::HandPlan;
using testing::RandomPlan;

WorkloadOptions small_workload() {
  WorkloadOptions options;
  options.model = "small";
  options.layers = 3;
  options.experts = 16;
  options.top_k = 2;
  options.sequences = 64;
  options.micro_batches = 4;
  options.scale = 1.0 / 64;
  options.seed = 5;
  return options;
}

CompareOptions small_options() {
  CompareOptions options;
  options.plan = {.topology = {.ep_size = 8, .ep_groups = 1, .gpus_per_node = 4}, .effort = 500};
  options.clusters = {cluster_preset("hopper-ib400"), cluster_preset("ampere-ib200")};
  options.model = {.name = "small", .hidden = 64, .intermediate = 32, .attention_flops = 1e4};
  return options;
}

std::vector<Comparison> compared(const Comm& comm, const CompareOptions& options,
                                 const std::vector<SweepAxis>& axes = {}) {
  const auto source = make_workload(small_workload());
  return compare_policies(comm, *source, count_routing(comm, *source, {}), options, axes,
                          [](std::string_view, double) {});
}

std::string document(const Comm& comm, const CompareOptions& options, const std::vector<SweepAxis>& axes) {
  const auto source = make_workload(small_workload());
  CompareReport report{source->dump(), "c1-0", options, {}, compared(comm, options, axes), !axes.empty()};
  for (Comparison& c : report.comparisons)
    for (PolicyResult& p : c.policies) p.planning_seconds = 0;
  return compare_json(report).dump();
}

TEST(MeasureWork, HandWorkedPlan) {
  HandPlan hand;
  const MeasuredWork measured = measure_work(Comm::world(), hand.source, hand.memory.view(), {});
  const StepWork& work = measured.work;
  ASSERT_EQ(work.groups.size(), 1u);
  EXPECT_EQ(work.groups[0].rows, 6);
  EXPECT_EQ(work.groups[0].pairs, 2);  // as MeasurePlan.HandWorkedPlan works it out
  EXPECT_EQ(work.groups[0].push.in_node, 1);
  EXPECT_EQ(work.groups[0].push.across_nodes, 0);
  EXPECT_EQ(work.rank_rows, (std::vector<std::int64_t>{4, 3, 3, 2}));
  EXPECT_EQ(work.rank_experts, (std::vector<std::int32_t>{1, 2, 1, 1}));
  EXPECT_FALSE(work.resident_copies);  // one micro-batch tells nothing
  EXPECT_EQ(work.moves.across_nodes + work.moves.in_node, 0);
}

TEST(FetchCells, EveryRangeOnEveryProcess) {
  const Comm comm = Comm::world();
  const RandomPlan random({.seed = 3, .layers = 3, .micro_batches = 5});
  const PlanCells& whole = random.plan.cells;
  const Range share = share_of(15, comm.rank(), comm.size());
  PlanCells mine{.cells = share};
  for (std::int64_t cell = share.first; cell < share.last; ++cell) {
    for (const Copy& c : whole.copies_of(cell)) mine.copies.push_back(c);
    for (const SplitEntry& s : whole.split_of(cell)) mine.split.push_back(s);
    mine.copy_offset.push_back(std::ssize(mine.copies));
    mine.split_offset.push_back(std::ssize(mine.split));
  }
  for (const Range wanted : {Range{0, 15}, Range{comm.rank(), comm.rank() + 7}, Range{15, 15}}) {
    const PlanCells cells = fetch_cells(comm, mine, wanted);
    EXPECT_EQ(cells.cells, wanted);
    for (std::int64_t cell = wanted.first; cell < wanted.last; ++cell) {
      EXPECT_THAT(cells.copies_of(cell), ::testing::ElementsAreArray(whole.copies_of(cell)));
      EXPECT_THAT(cells.split_of(cell), ::testing::ElementsAreArray(whole.split_of(cell)));
    }
  }
}

TEST(ComparePolicies, TheSameDocumentOnOneProcessAndOnAll) {
  const CompareOptions options = small_options();
  const std::string alone = document(Comm(MPI_COMM_SELF), options, {});
  EXPECT_EQ(document(Comm::world(), options, {}), alone);
}

TEST(ComparePolicies, MeasuresAreThoseOfThePlans) {
  const auto comparisons = compared(Comm::world(), small_options());
  ASSERT_EQ(comparisons.size(), 2u);  // clusters
  const Comparison& c = comparisons[0];
  EXPECT_EQ(c.at_static().policy, "static");
  EXPECT_EQ(c.balanced().policy, "balanced");
  const auto source = make_workload(small_workload());
  const CountedRouting counted = count_routing(Comm::world(), *source, {});
  for (const PolicyResult& p : c.policies) {
    if (!p.refusal.empty() || &p == &c.balanced()) continue;
    const CompareOptions given = small_options();
    PlanOptions options = given.plan;
    options.policy = p.policy;
    const Prices prices =
        prices_of(given.clusters[0], given.model, given.time, options.topology, source->dump().header.top_k);
    options.priced_start = true;
    options.move_cost = prices.move;
    options.details.push_price = prices.push;
    options.details.push_shadow = prices.shadow;
    options.details.far_price = prices.far;
    const PlanResult planned =
        plan_step(Comm::world(), source->dump(), counted, options, nullptr, [](std::string_view, double) {});
    std::int64_t at = 0;
    for (std::int64_t cell = planned.mine.cells.first; cell < planned.mine.cells.last; ++cell)
      for (const std::int64_t rows : p.work.rows_of(static_cast<std::size_t>(cell)))
        ASSERT_EQ(rows, planned.mine.rank_tokens[static_cast<std::size_t>(at++)]) << p.policy;
    EXPECT_EQ(p.moves.experts, std::ssize(moves_between(planned.plan.previous, planned.plan.placement)));
  }
  EXPECT_DOUBLE_EQ(c.at_static().summary.after.skew.mean, c.at_static().summary.before.skew.mean);
  for (const PolicyResult& p : c.policies) {
    if (!p.refusal.empty()) continue;
    EXPECT_GE(p.summary.after.skew.mean, c.balanced().summary.after.skew.mean - 1e-12) << p.policy;
  }
  EXPECT_LT(c.balanced().summary.after.over_mean_bound.max, 1 + 1e-12);
}

TEST(ComparePolicies, ChosenOnesAndTheTwoThatOthersAreHeldAgainst) {
  CompareOptions options = small_options();
  options.policies = {"greedy"};
  const auto c = compared(Comm::world(), options);
  std::vector<std::string> names;
  for (const PolicyResult& p : c[0].policies) names.push_back(p.policy);
  EXPECT_THAT(names, ::testing::ElementsAre("static", "greedy", "balanced"));
  options.policies = {"greed"};
  EXPECT_THROW(compared(Comm::world(), options), Error);
}

// Where moving costs nearly nothing everything moves; where it costs more than could be saved, nothing.
TEST(ComparePolicies, EveryClusterHasAPlanAtItsPrices) {
  CompareOptions options = small_options();
  options.policies = {"relibra", "greedy"};
  options.clusters[0].network *= 1e6;
  options.clusters[1].network *= 1e-3;
  const auto c = compared(Comm::world(), options);
  ASSERT_EQ(c.size(), 2u);
  EXPECT_EQ(c[1].cluster, 1u);
  EXPECT_GT(c[0].policies[1].moves.experts, 0);
  EXPECT_EQ(c[1].policies[1].moves.experts, 0);
  EXPECT_EQ(c[0].policies[2].moves.experts, c[1].policies[2].moves.experts);
  EXPECT_LT(c[0].policies[2].time.moves, c[1].policies[2].time.moves);
  options.plan.move_cost = 0;
  EXPECT_GT(compared(Comm::world(), options)[1].policies[1].moves.experts, 0);
}

TEST(ComparePolicies, TokenFactorScalesThePriceOfMoves) {
  const Comm comm = Comm::world();
  const auto source = make_workload(small_workload());
  CompareOptions options = small_options();
  options.policies = {"relibra"};
  options.plan.move_cost = 18'667;
  PlanOptions before = options.plan;
  before.policy = "static";
  options.previous = previous_of(plan_step(comm, source->dump(), count_routing(comm, *source, {}), before,
                                           nullptr, [](std::string_view, double) {})
                                     .plan);
  // 18 667 assignments a move are more than these few tokens could save.
  EXPECT_EQ(compared(comm, options)[0].policies[1].moves.experts, 0);
  options.time.token_factor = 1e6;
  EXPECT_GT(compared(comm, options)[0].policies[1].moves.experts, 0);
}

TEST(ComparePolicies, SweepGoesThroughAllCombinations) {
  CompareOptions options = small_options();
  options.policies = {"relibra"};
  options.clusters.pop_back();
  const std::vector<SweepAxis> axes{parse_sweep_axis("ep-size=4,8"), parse_sweep_axis("replica-slots=0,1,2")};
  const auto comparisons = compared(Comm::world(), options, axes);
  ASSERT_EQ(comparisons.size(), 6u);
  EXPECT_EQ(comparisons[1].topology.ep_size, 4);
  EXPECT_EQ(comparisons[1].replica_slots, 1);
  EXPECT_EQ(comparisons[3].topology.ep_size, 8);
  EXPECT_EQ(comparisons[3].replica_slots, 0);
  EXPECT_EQ(comparisons[3].policies[1].summary.copies_total, 0);
  const auto enough = enough_slots(comparisons);
  EXPECT_EQ(enough.size(), 6u);  // two sizes, three policies
  for (const EnoughSlots& e : enough) {
    EXPECT_LE(e.seconds, e.fastest * 1.01);
    if (e.policy == "static") {
      EXPECT_EQ(e.slots, 0);
    }
  }
}

TEST(ParseSweepAxis, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(parse_sweep_axis("replica-slots=0,2").values, ::testing::ElementsAre(0, 2));
  for (const char* wrong : {"", "ep-size", "ep-size=", "ep-size=8,", "ep-size=0", "ep-size=-1", "slots=1",
                            "ep-size=8;9", "ep-size=99999999999"})
    EXPECT_THROW(parse_sweep_axis(wrong), Error) << wrong;
}

}  // namespace
}  // namespace relibra
