#include "lib/cost/metrics.h"

#include <gtest/gtest.h>

namespace relibra {
namespace {

TEST(Quantile, LinearBetweenNeighboursAsNumpy) {
  const std::vector<double> v{1, 2, 4};
  EXPECT_DOUBLE_EQ(quantile(v, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(v, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile(v, 0.75), 3);
  EXPECT_DOUBLE_EQ(quantile(v, 1), 4);
  EXPECT_DOUBLE_EQ(quantile(std::vector<double>{7}, 0.99), 7);
  // numpy.quantile([1, 2, 3, 5, 8], .99): position 3.96, between 5 and 8.
  EXPECT_DOUBLE_EQ(quantile(std::vector<double>{1, 2, 3, 5, 8}, 0.99), 7.88);
}

TEST(Statistics, OfUnsortedValues) {
  const auto s = statistics({4, 1, 2});
  EXPECT_EQ(s.count, 3);
  EXPECT_DOUBLE_EQ(s.mean, 7.0 / 3);
  EXPECT_DOUBLE_EQ(s.p50, 2);
  EXPECT_DOUBLE_EQ(s.p99, 3.96);  // position 1.98
  EXPECT_DOUBLE_EQ(s.max, 4);
  EXPECT_EQ(statistics({}).count, 0);
}

TEST(MeasureLoads, ExampleOfTheHeader) {
  const auto m = measure_loads({.ep_size = 4, .gpus_per_node = 2}, std::vector<std::int64_t>{5, 3, 1, 1});
  ASSERT_TRUE(m);
  EXPECT_DOUBLE_EQ(m->skew, 2);
  EXPECT_DOUBLE_EQ(m->node_skew, 1.6);
  EXPECT_DOUBLE_EQ(m->over_mean_bound, 5.0 / 3);
  EXPECT_DOUBLE_EQ(m->over_node_bound, 1.25);
}

TEST(MeasureLoads, ANodeThatHoldsSeveralGroupsIsOneNodeOfEach) {
  const auto m =
      measure_loads({.ep_size = 2, .ep_groups = 2, .gpus_per_node = 4}, std::vector<std::int64_t>{3, 1});
  ASSERT_TRUE(m);
  EXPECT_DOUBLE_EQ(m->skew, 1.5);
  EXPECT_DOUBLE_EQ(m->node_skew, 1);
  EXPECT_DOUBLE_EQ(m->over_node_bound, 1.5);
}

TEST(MeasureLoads, NothingWithoutLoad) {
  EXPECT_FALSE(measure_loads({.ep_size = 2}, std::vector<std::int64_t>{0, 0}));
}

TEST(MeasureCopies, CountsPerHomeRankAndGroup) {
  const Topology t{.ep_size = 4, .ep_groups = 2, .gpus_per_node = 4};
  const std::vector<EpRankId> home{EpRankId(0), EpRankId(0), EpRankId(1)};
  const auto copy = [](int e, int r) { return Copy{ExpertId(e), RankId(r), 0}; };
  // Home 0 of group 0 sends three, home 0 of group 1 one, home 1 of group 0 one.
  const auto m =
      measure_copies(t, home, std::vector<Copy>{copy(0, 1), copy(0, 2), copy(0, 5), copy(1, 3), copy(2, 0)});
  EXPECT_EQ(m.copies, 5);
  EXPECT_EQ(m.fan_out, 3);
  EXPECT_EQ(measure_copies(t, home, {}).fan_out, 0);
}

TEST(CountPairs, ExampleOfTheHeader) {
  const auto p = count_pairs(std::vector<std::int64_t>{2, 1}, std::vector<std::int64_t>{1, 2});
  EXPECT_EQ(p.pairs, 3);
  EXPECT_EQ(p.busiest, 2);
  EXPECT_DOUBLE_EQ(busiest_per_token(p, 2, 4), 1);
}

/// E = 4, L = 2, M = 1, P = 2, D = 1, G = 2. Layer 0: experts 1 and 2 have changed places, one copy.
Plan small_plan() {
  Plan plan;
  plan.header.num_experts = 4;
  plan.header.num_micro_batches = 1;
  plan.header.layers = {3, 4};
  plan.header.topology = {.ep_size = 2, .gpus_per_node = 2};
  plan.placement = plan.previous = Placement::contiguous(2, 4, 2);
  plan.placement.home(LayerId(0), ExpertId(1)) = EpRankId(1);
  plan.placement.home(LayerId(0), ExpertId(2)) = EpRankId(0);
  return plan;
}

PlanCells small_cells() {
  PlanCells cells;
  cells.cells = {0, 2};
  cells.copy_offset = {0, 1, 1};
  cells.copies = {{ExpertId(0), RankId(1), 0}};
  cells.split_offset = {0, 1, 1};
  cells.split = {{ExpertId(0), RankId(0), RankId(1), 1}};
  cells.rank_tokens = {3, 3, 0, 0};  // layer 1 has no routes at all
  cells.rank_tokens_static = {4, 2, 0, 0};
  return cells;
}

TEST(Summarise, LayersWithoutLoadCountForCopiesOnly) {
  const Plan plan = small_plan();
  PlanSamples samples;
  const PlanCells cells = small_cells();
  sample_cells(plan, cells, cells.rank_tokens_static, cells.rank_tokens, samples);
  ASSERT_EQ(samples.groups.size(), 1u);
  ASSERT_EQ(samples.cells.size(), 2u);
  samples.cells[0].rows = 3;
  samples.cells[0].before = {.pairs = 4, .busiest = 3};

  const auto all_layers = summarise(plan.header, samples);
  EXPECT_EQ(all_layers.after.skew.count, 1);
  EXPECT_DOUBLE_EQ(all_layers.before.skew.mean, 4.0 / 3);
  EXPECT_DOUBLE_EQ(all_layers.after.skew.mean, 1);
  EXPECT_EQ(all_layers.copies_total, 1);
  EXPECT_DOUBLE_EQ(all_layers.copies.mean, 0.5);
  EXPECT_DOUBLE_EQ(all_layers.fan_out.max, 1);
  EXPECT_EQ(all_layers.before.cross_node_pairs, 4);
  EXPECT_EQ(all_layers.before.pairs_busiest.count, 1);
  EXPECT_DOUBLE_EQ(all_layers.before.pairs_busiest.mean, 1);  // 3 pairs, 1 node, 3 rows
  EXPECT_EQ(all_layers.over_replica_bound.count, 0);

  const auto second = summarise(plan.header, samples, LayerId(1));
  EXPECT_EQ(second.after.skew.count, 0);
  EXPECT_EQ(second.copies.count, 1);
  EXPECT_EQ(second.copies_total, 0);
}

TEST(MeasureMoves, CountsAndBytesOfAllGroups) {
  Plan plan = small_plan();
  plan.header.topology.ep_groups = 3;
  const auto moves = measure_moves(plan, ExpertBytes::swiglu(2, 5));
  EXPECT_EQ(moves.experts, 2);
  EXPECT_EQ(moves.weight_bytes, 2 * 3 * 60);  // 30 parameters of 2 bytes
  EXPECT_EQ(moves.optimizer_bytes, 2 * 3 * 360);
  EXPECT_EQ(measure_moves(plan, {}, LayerId(1)).experts, 0);
}

}  // namespace
}  // namespace relibra
