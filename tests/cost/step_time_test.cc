#include "lib/cost/step_time.h"

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/cost/calibrate.h"

namespace relibra {
namespace {

/// Round numbers: 100 GFLOP/s experts, 50 GFLOP/s attention, 10 GB/s NVLink, 2 GB/s network.
Cluster hand_cluster() {
  return {.name = "hand",
          .flops = 200e9,
          .gemm_share = 0.5,
          .gemm_half_rows = 10,
          .attention_share = 0.25,
          .nvlink = 20e9,
          .nvlink_share = 0.5,
          .network = 4e9,
          .network_share = 0.5,
          .latency = 1e-3};
}

/// 3 * 1000 * 500 = 1.5 M parameters: 3 MFLOP an assignment, 3 MB of weights, 6 MB of gradients.
LayerModel hand_model() {
  return {.name = "hand", .hidden = 1000, .intermediate = 500, .attention_flops = 10e6, .shared_experts = 1};
}

/// P = 4 on 2 nodes of 2, one cell: ranks compute 100, 70, 20, 10 assignments of 100 tokens.
StepWork hand_work() {
  StepWork work{.topology = {.ep_size = 4, .ep_groups = 1, .gpus_per_node = 2}, .layers = 1};
  work.groups = {{.cell = 0, .group = 0, .rows = 100, .pairs = 60, .push = {.in_node = 2}}};
  work.rank_rows = {100, 70, 20, 10};
  work.rank_experts = {2, 6, 2, 2};
  return work;
}

TEST(CellTimes, EveryTermByHand) {
  const CellTimes t = cell_times(hand_cluster(), hand_model(), {}, hand_work(), 0);
  // Ranks need 100 + 10*2 = 120 and 70 + 10*6 = 130 rows' time: 3 * 3e6 * 130 / 100e9.
  EXPECT_DOUBLE_EQ(t.compute, 3 * 3e6 * 130 / 100e9);
  // 25 tokens a rank, 10 + 3 MFLOP each, forward and twice that backward, at 50 GFLOP/s.
  EXPECT_DOUBLE_EQ(t.attention, 3 * 13e6 * 25 / 50e9);
  // A token is 2000 bytes. Network: 60 pairs over 2 ranks of 2 GB/s: 30 us; NVLink: 100 rows at 10 GB/s: 20
  // us. Each way a millisecond more, twice.
  EXPECT_DOUBLE_EQ(t.dispatch, 2 * (1e-3 + 60 * 2000 / 4e9));
  EXPECT_DOUBLE_EQ(t.combine, t.dispatch);
  // Two copies: 6 MB of weights at 10 GB/s in 0.6 ms, 12 MB of gradients in 1.2 ms. Attention hides 6.5 ms
  // forward and 13 ms backward.
  EXPECT_DOUBLE_EQ(t.push, 0);
  EXPECT_DOUBLE_EQ(t.total(), t.attention + t.dispatch + t.compute + t.combine);
}

TEST(CellTimes, PushesShowWhereAttentionIsShort) {
  StepWork work = hand_work();
  const CellTimes exposed = cell_times(hand_cluster(), hand_model(), {.overlap = 0}, work, 0);
  EXPECT_DOUBLE_EQ(exposed.push, 2 * 3e6 / 10e9 + 2 * 6e6 / 10e9);
  // Across nodes: 3 copies of 3 MB at 2 GB/s are 4.5 ms, their gradients 9 ms; beside 0.5 * 6.5 and 6.5 ms.
  work.groups[0].push = {.in_node = 2, .across_nodes = 3};
  const CellTimes across = cell_times(hand_cluster(), hand_model(), {.overlap = 0.5}, work, 0);
  EXPECT_NEAR(across.push, (4.5e-3 - 3.25e-3) + (9e-3 - 6.5e-3), 1e-15);
}

TEST(CellTimes, NvlinkDecidesInsideANode) {
  StepWork work = hand_work();
  work.topology.gpus_per_node = 4;
  work.groups[0].pairs = 0;
  const CellTimes t = cell_times(hand_cluster(), hand_model(), {}, work, 0);
  EXPECT_DOUBLE_EQ(t.combine, 2 * (1e-3 + 100 * 2000 / 10e9));
}

TEST(CellTimes, TokenFactorScalesRowsAndNotExperts) {
  const CellTimes t = cell_times(hand_cluster(), hand_model(), {.token_factor = 10}, hand_work(), 0);
  EXPECT_DOUBLE_EQ(t.compute, 3 * 3e6 * (1000 + 20) / 100e9);
  EXPECT_DOUBLE_EQ(t.combine, 2 * (1e-3 + 600 * 2000 / 4e9));
  EXPECT_DOUBLE_EQ(t.attention, 3 * 13e6 * 250 / 50e9);
}

TEST(CellTimes, OneRankExchangesNothing) {
  StepWork work{.topology = {}, .layers = 1};
  work.groups = {{.cell = 0, .group = 0, .rows = 5}};
  work.rank_rows = {10};
  work.rank_experts = {1};
  const CellTimes t = cell_times(hand_cluster(), hand_model(), {}, work, 0);
  EXPECT_EQ(t.dispatch, 0);
  EXPECT_EQ(t.combine, 0);
  EXPECT_DOUBLE_EQ(t.compute, 3 * 3e6 * 20 / 100e9);
}

TEST(StepTimes, SumOfCellsMovesAndTheMeanRank) {
  StepWork work = hand_work();
  work.groups.push_back({.cell = 1, .group = 0, .rows = 200, .pairs = 0});
  work.layers = 2;
  work.rank_rows.insert(work.rank_rows.end(), {50, 50, 50, 50});
  work.rank_experts.insert(work.rank_experts.end(), {2, 2, 2, 2});
  work.moves = {.in_node = 10, .across_nodes = 3};
  const StepTimes t = step_times(hand_cluster(), hand_model(), {}, work);
  EXPECT_DOUBLE_EQ(t.cells.compute, 9e6 * 130 / 100e9 + 9e6 * 70 / 100e9);
  // Means of rows and of 10 * experts: 50 + 30, and 50 + 20.
  EXPECT_DOUBLE_EQ(t.compute_mean, 9e6 * 80 / 100e9 + 9e6 * 70 / 100e9);
  // 1.5 M parameters of 14 bytes: 10 at 10 GB/s are 21 ms, 3 at 2 GB/s are 31.5 ms.
  EXPECT_DOUBLE_EQ(t.moves, 3 * 1.5e6 * 14 / 2e9);
  EXPECT_DOUBLE_EQ(t.total(), t.cells.total() + t.moves);
  EXPECT_EQ(t.slowest, 1u);  // twice the attention outweighs
}

TEST(StepTimes, GroupsWaitAtTheEndOnly) {
  StepWork work{.topology = {.ep_size = 1, .ep_groups = 2, .gpus_per_node = 2}, .layers = 1};
  for (int m = 0; m < 2; ++m)
    for (int g = 0; g < 2; ++g) work.groups.push_back({.cell = m, .group = g, .rows = 0});
  work.rank_rows = {100, 10, 20, 120};  // group 0: 100 + 20; group 1: 10 + 120
  work.rank_experts = {0, 0, 0, 0};
  const StepTimes t = step_times(hand_cluster(), hand_model(), {}, work);
  EXPECT_EQ(t.group, 1);
  EXPECT_DOUBLE_EQ(t.cells.compute, 9e6 * 10 / 100e9 + 9e6 * 120 / 100e9);
}

TEST(StepTimes, ResidentCopiesArePushedOnceAnOptimizerStep) {
  StepWork work = hand_work();
  work.groups.push_back(work.groups[0]);
  work.groups[1].cell = 1;  // the same layer, next micro-batch
  work.rank_rows.insert(work.rank_rows.end(), {100, 70, 20, 10});
  work.rank_experts.insert(work.rank_experts.end(), {2, 6, 2, 2});
  work.resident_copies = true;
  work.optimizer_steps = 2;
  const StepTimes t = step_times(hand_cluster(), hand_model(), {}, work);
  EXPECT_DOUBLE_EQ(t.cells.push, 2 * (2 * 3e6 / 10e9 + 2 * 6e6 / 10e9));
}

TEST(PushWork, BusiestRankByLink) {
  const Topology t{.ep_size = 4, .ep_groups = 2, .gpus_per_node = 2};
  const std::vector<EpRankId> home{EpRankId(0), EpRankId(0), EpRankId(2)};
  // Group 1 is ranks 4..7. Rank 0 of it sends two over NVLink and one over the network; group 0 sends one.
  const std::vector<Copy> copies{{ExpertId(0), RankId(1)},
                                 {ExpertId(0), RankId(5)},
                                 {ExpertId(1), RankId(5)},
                                 {ExpertId(1), RankId(6)},
                                 {ExpertId(2), RankId(7)}};
  const PushWork one = push_work(t, GroupId(1), home, copies);
  EXPECT_EQ(one.in_node, 2);
  EXPECT_EQ(one.across_nodes, 1);
  EXPECT_EQ(push_work(t, GroupId(0), home, copies).in_node, 1);
}

TEST(MoveWork, BusiestReceiverCounts) {
  const Topology t{.ep_size = 4, .ep_groups = 1, .gpus_per_node = 2};
  const auto move = [](int from, int to) {
    return Move{LayerId(0), ExpertId(0), EpRankId(from), EpRankId(to)};
  };
  const std::vector<Move> moves{move(0, 3), move(1, 3), move(2, 3), move(3, 2)};
  const PushWork work = move_work(t, moves);
  EXPECT_EQ(work.across_nodes, 2);  // rank 3 receives from 0 and 1
  EXPECT_EQ(work.in_node, 1);
}

TEST(BalancedWork, FloorOrCeilAndExpectedPairs) {
  StepWork work = hand_work();
  work.rank_rows = {101, 70, 20, 10};
  const StepWork balanced = balanced_work(work, 6, 2);
  EXPECT_EQ(balanced.rank_rows, (std::vector<std::int64_t>{51, 50, 50, 50}));
  EXPECT_EQ(balanced.rank_experts, (std::vector<std::int32_t>{2, 2, 1, 1}));
  // Two of six experts miss the three of the other node with 3/6 * 2/5 = 0.2; 50 tokens a node.
  EXPECT_EQ(balanced.groups[0].pairs, 40);
  EXPECT_EQ(balanced.groups[0].push.in_node, 0);
}

TEST(SlotBytes, TwoBanksOrEveryLayer) {
  // 1.5 M parameters: 3 MB of weights, 6 MB of gradients.
  EXPECT_EQ(slot_bytes(hand_model(), 2, 10, false), 2 * (2 * 3'000'000 + 6'000'000));
  EXPECT_EQ(slot_bytes(hand_model(), 2, 10, true), 2 * 10 * 9'000'000);
}

TEST(ClusterPreset, UnknownNamesAreRefusedWithTheList) {
  EXPECT_EQ(cluster_preset("hopper-ib400").network, 50e9);
  try {
    cluster_preset("abacus");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("hopper-ib400"), std::string::npos);
  }
}

TEST(FitGemm, RecoversTheCurve) {
  const std::vector<GemmSample> samples{{.rows = 10, .experts = 1, .passes = 1, .seconds = 12},
                                        {.rows = 20, .experts = 2, .passes = 1, .seconds = 24},
                                        {.rows = 30, .experts = 1, .passes = 2, .seconds = 64}};
  const GemmFit fit = fit_gemm(samples);
  EXPECT_NEAR(fit.row, 1, 1e-12);
  EXPECT_NEAR(fit.expert, 2, 1e-12);
  EXPECT_NEAR(fit.error, 0, 1e-12);
  const Cluster cluster = with_gemm(hand_cluster(), fit, 3e6);
  // A row a second: 3 MFLOP/s of 200 GFLOP/s; attention stays at half of experts.
  EXPECT_NEAR(cluster.gemm_share, 3e6 / 200e9, 1e-17);
  EXPECT_NEAR(cluster.attention_share, cluster.gemm_share / 2, 1e-17);
  EXPECT_NEAR(cluster.gemm_half_rows, 2, 1e-12);
}

TEST(FitGemm, EqualRowsAnExpertGoToRows) {
  const std::vector<GemmSample> samples{{.rows = 10, .experts = 1, .seconds = 20},
                                        {.rows = 20, .experts = 2, .seconds = 40}};
  const GemmFit fit = fit_gemm(samples);
  EXPECT_DOUBLE_EQ(fit.row, 2);
  EXPECT_EQ(fit.expert, 0);
}

TEST(FitGemm, NoTimesAreRefused) {
  const std::vector<GemmSample> samples{{.rows = 10, .experts = 1, .seconds = 0}};
  EXPECT_THROW(fit_gemm(samples), Error);
}

}  // namespace
}  // namespace relibra
