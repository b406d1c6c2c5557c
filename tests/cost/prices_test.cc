#include "lib/cost/prices.h"

#include <gtest/gtest.h>

namespace relibra {
namespace {

// H = 1000, I = 500: p = 1.5 million, F = 3 MFLOP. An assignment takes 3 * 3e6 / 50e9 = 180 us, attention and
// one shared expert 3 * 13e6 / 25e9 = 1560 us a token.
const Cluster kCluster{.name = "hand",
                       .flops = 100e9,
                       .gemm_share = 0.5,
                       .gemm_half_rows = 10,
                       .attention_share = 0.25,
                       .nvlink = 10e9,
                       .nvlink_share = 1,
                       .network = 4e9,
                       .network_share = 0.5,
                       .latency = 0.001};
const LayerModel kModel{
    .name = "hand", .hidden = 1000, .intermediate = 500, .attention_flops = 10e6, .shared_experts = 1};

TEST(Prices, ByHand) {
  const Prices prices = prices_of(kCluster, kModel, {}, {8, 1, 4}, 4);
  EXPECT_DOUBLE_EQ(prices.move, 1.5e6 * 14 / 2e9 / 180e-6);
  EXPECT_DOUBLE_EQ(prices.push, 1.5e6 * (2 + 4) / 2e9 / 180e-6);
  EXPECT_DOUBLE_EQ(prices.shadow, 1560e-6 / (4 * 180e-6));
  EXPECT_DOUBLE_EQ(prices.far, 1000.0 * (2 + 3 * 2) / 2e9 / 180e-6 / 8);  // one of two nodes, three times
  const Prices sampled = prices_of(kCluster, kModel, {.token_factor = 10, .overlap = 0.5}, {8, 1, 4}, 4);
  EXPECT_DOUBLE_EQ(sampled.move, prices.move / 10);
  EXPECT_DOUBLE_EQ(sampled.push, prices.push / 10);
  EXPECT_DOUBLE_EQ(sampled.far, prices.far);
  EXPECT_DOUBLE_EQ(sampled.shadow, prices.shadow / 2);
  EXPECT_DOUBLE_EQ(prices_of(kCluster, kModel, {}, {4, 1, 4}, 4).move, prices.move / 5);  // over NVLink
}

// What the model charges for n copies across nodes over what it charges for none is what the prices say.
TEST(Prices, AreWhatTheModelCharges) {
  for (const Cluster& cluster : cluster_presets())
    for (const double factor : {1.0, 32.0})
      for (const std::int64_t copies : {1, 2, 5, 20}) {
        const LayerModel model{.name = "m", .hidden = 4096, .intermediate = 1536, .attention_flops = 2e8};
        const StepTimeOptions options{.token_factor = factor};
        StepWork work{.topology = {.ep_size = 4, .ep_groups = 1, .gpus_per_node = 2}, .layers = 1};
        work.groups = {{.rows = 4000, .push = {.across_nodes = copies}}};
        work.rank_rows = {8000, 8000, 8000, 8000};  // top 8
        work.rank_experts = {1, 1, 1, 1};
        const Prices prices = prices_of(cluster, model, options, work.topology, 8);
        const double assignment = 3 * model.expert_flops() * factor / (cluster.flops * cluster.gemm_share);
        const double charged =
            std::max(0.0, prices.push * double(copies) - prices.shadow * 8000) * assignment;
        EXPECT_NEAR(cell_times(cluster, model, options, work, 0).push, charged, 1e-9) << cluster.name;
      }
}

}  // namespace
}  // namespace relibra
