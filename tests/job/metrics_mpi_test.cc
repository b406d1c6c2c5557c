#include "lib/job/metrics.h"

#include <gtest/gtest.h>

#include "tests/support/hand_plan.h"
#include "tests/support/random_plan.h"

namespace relibra {
namespace {

using testing::HandPlan;
using testing::RandomCase;
using testing::RandomPlan;

TEST(MeasurePlan, HandWorkedPlan) {
  HandPlan hand;
  const PlanSamples samples = measure_plan(Comm::world(), hand.source, hand.memory.view(), {});
  const PlanSummary s = summarise(hand.memory.plan.header, samples);
  // Before: 5 of 12 on the slowest of four ranks, nodes 7 and 5. After: 4.
  EXPECT_DOUBLE_EQ(s.before.skew.mean, 5.0 * 4 / 12);
  EXPECT_DOUBLE_EQ(s.after.skew.mean, 4.0 * 4 / 12);
  EXPECT_DOUBLE_EQ(s.before.node_skew.max, 7.0 * 2 / 12);
  EXPECT_DOUBLE_EQ(s.after.node_skew.max, 7.0 * 2 / 12);
  EXPECT_DOUBLE_EQ(s.before.over_mean_bound.p50, 5.0 / 3);
  EXPECT_DOUBLE_EQ(s.before.over_node_bound.p99, 5.0 / 4);
  EXPECT_DOUBLE_EQ(s.after.over_node_bound.p99, 1);
  // T = 4: both ranks of node 0 can compute expert 0, 4 + 4 covers 7.
  EXPECT_DOUBLE_EQ(s.over_replica_bound.mean, 1);
  EXPECT_EQ(s.copies_total, 1);
  EXPECT_DOUBLE_EQ(s.fan_out.max, 1);
  // Rows (0 2) and (0 3) of rank 0 go to node 1, row (0 2) of rank 2 to node 0: 2 and 1 sent, 1 and 2
  // received; six rows on two nodes.
  for (const SideSummary& side : {s.before, s.after}) {
    EXPECT_EQ(side.cross_node_pairs, 3);
    EXPECT_DOUBLE_EQ(side.pairs_busiest.mean, 2.0 * 2 / 6);
  }
}

TEST(PlacementBound, WithoutSlotsTheHomesDecide) {
  const HandPlan hand;
  PlanHeader header = hand.memory.plan.header;
  const auto home = hand.memory.plan.placement.layer(LayerId(0));
  const std::vector<std::int64_t> load{5, 2, 3, 2};
  EXPECT_EQ(placement_bound(header, home, load), 4);
  header.replica_slots = 0;
  EXPECT_EQ(placement_bound(header, home, load), 5);
  header.replica_slots = 1;
  header.replica_domain = ReplicaDomain::group;  // 12 over four ranks
  EXPECT_EQ(placement_bound(header, home, load), 3);
}

TEST(MetricsJson, HandWorkedPlan) {
  HandPlan hand;
  auto previous = hand.memory.plan.previous.layer(LayerId(0));
  std::swap(previous[2], previous[3]);
  const PlanSamples samples = measure_plan(Comm::world(), hand.source, hand.memory.view(), {});
  const auto json = metrics_json(
      hand.memory.plan, samples, ExpertBytes::swiglu(2, 5),
      {.ranks = 3, .threads = 2, .bytes_read = 12, .phases = {{"count", 0.5}, {"reorder", 0.25}}});
  EXPECT_EQ(json["format"], "relibra.metrics");
  EXPECT_EQ(json["plan"]["ep_size"], 4);
  EXPECT_DOUBLE_EQ(json["overall"]["after"]["skew"]["p99"], 4.0 * 4 / 12);
  EXPECT_EQ(json["overall"]["moves"]["experts"], 2);
  EXPECT_EQ(json["overall"]["moves"]["weight_bytes"], 120);
  EXPECT_EQ(json["overall"]["copies"]["total"], 1);
  ASSERT_EQ(json["layers"].size(), 1u);
  EXPECT_EQ(json["layers"][0]["layer"], 1);
  EXPECT_EQ(json["layers"][0]["after"], json["overall"]["after"]);
  EXPECT_DOUBLE_EQ(json["run"]["seconds"]["total"], 0.75);
  EXPECT_EQ(json["run"]["bytes_read"], 12);
}

TEST(MetricsJson, WhatWasNotMeasuredIsNull) {
  const HandPlan hand;
  const PlanSamples samples = measure_tables(Comm::world(), hand.memory.view());
  const auto json = summary_json(hand.memory.plan, samples, {});
  EXPECT_DOUBLE_EQ(json["after"]["skew"]["mean"], 4.0 * 4 / 12);
  EXPECT_TRUE(json["after"]["cross_node_pairs"].is_null());
  EXPECT_TRUE(json["after"]["pairs_busiest"].is_null());
  EXPECT_TRUE(json["after"]["over_replica_bound"].is_null());
  EXPECT_TRUE(json["moves"]["weight_bytes"].is_null());
}

TEST(MeasurePlan, SameForAnyNumberOfRanksAndNeverBelowTheBounds) {
  for (std::uint64_t seed : {1, 2, 3}) {
    const RandomPlan random(RandomCase{.seed = seed, .sequences = 40, .longest = 60, .micro_batches = 3});
    auto source = random.source();
    const PlanView view = random.plan.view();
    const PlanSamples together = measure_plan(Comm::world(), source, view, {});
    const PlanSamples alone = measure_plan(Comm(MPI_COMM_SELF), source, view, {});
    EXPECT_EQ(summary_json(view.plan, together, {}), summary_json(view.plan, alone, {}));
    const PlanSamples tables = measure_tables(Comm::world(), view);
    EXPECT_EQ(tables.groups.size(), together.groups.size());
    for (const GroupSample& sample : together.groups) {
      EXPECT_GE(sample.over_replica_bound, 1);
      EXPECT_GE(sample.after.over_node_bound, 1);
      EXPECT_LE(sample.over_replica_bound, sample.after.over_mean_bound);
    }
  }
}

}  // namespace
}  // namespace relibra
