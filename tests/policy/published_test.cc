// The policies of others against published vectors and exact answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/policy/cell.h"
#include "lib/policy/policy.h"
#include "tests/support/exact_replication.h"

namespace relibra {
namespace {

using Loads = std::vector<std::int64_t>;

// The loads of EPLB's README, times 60: up to six copies share them evenly.
Loads sixty_times(Loads load) {
  for (std::int64_t& l : load) l *= 60;
  return load;
}
const Loads kFirst = sixty_times({90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86});
const Loads kSecond = sixty_times({20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27});

PolicyOptions options_of(const Topology& topology, int experts, int slots) {
  PolicyOptions options;
  options.topology = topology;
  options.num_experts = experts;
  options.replica_slots = slots;
  return options;
}

// One cell of one group, its tokens dealt to sources in turn.
CellCounts counts_of(const Loads& load, int world) {
  CellCounts counts(static_cast<int>(load.size()), world);
  for (ExpertId e : all<ExpertId>(load.size()))
    for (std::int64_t i = 0; i < load[e.index()]; ++i) ++counts.at(e, RankId(i % world));
  return counts;
}

LayerDecision decide(const Policy& policy, const Loads& load, int ep_size) {
  const LayerLoads loads{1, 1, static_cast<int>(load.size()), load};
  const auto before = Placement::contiguous(1, loads.experts, ep_size);
  return policy.between_steps(
      {.layer = LayerId(0), .loads = loads, .previous_home = before.layer(LayerId(0))});
}

Loads rank_loads(const LayerDecision& layer, const CellCounts& counts, const CellPlan& plan) {
  Loads load(static_cast<std::size_t>(counts.world()), 0);
  std::vector<bool> copied(layer.home.size(), false);
  for (const Copy& copy : plan.copies) copied[copy.expert.index()] = true;
  for (const SplitEntry& entry : plan.split) load[entry.rank.index()] += entry.tokens;
  for (ExpertId e : all<ExpertId>(layer.home.size()))
    if (!copied[e.index()])
      for (std::int32_t tokens : counts.of(e)) load[layer.home[e.index()].index()] += tokens;
  return load;
}

double slowest_over_mean(const Loads& load) {
  const auto total = std::accumulate(load.begin(), load.end(), std::int64_t{0});
  return static_cast<double>(*std::max_element(load.begin(), load.end())) * static_cast<double>(load.size()) /
         static_cast<double>(total);
}

struct Planned {
  PlanShape shape;
  LayerDecision layer;
  CellPlan plan;
  Loads load;
};

Planned planned(const char* name, const PolicyOptions& options, const Loads& load) {
  const auto policy = make_policy(name, options);
  Planned result{policy->shape(), decide(*policy, load, options.topology.ep_size), {}, {}};
  const CellCounts counts = counts_of(load, options.topology.world());
  result.plan = policy->inside_step(result.layer, counts);
  result.load = rank_loads(result.layer, counts, result.plan);
  return result;
}

const Topology kTwoNodes{.ep_size = 8, .ep_groups = 1, .gpus_per_node = 4};

// The README's 16 slots of 8 GPUs on two nodes are the home slots of 12 experts, so no slot is spare. Slot
// for slot: 5 6 | 5 7 | 8 4 | 3 4 || 10 9 | 10 2 | 0 1 | 11 1.
TEST(Eplb, ReadmeExampleAsAPlan) {
  PolicyOptions options = options_of(kTwoNodes, 12, 0);
  options.details.expert_groups = 4;
  const Planned first = planned("eplb", options, kFirst);
  EXPECT_EQ(first.shape.domain, ReplicaDomain::node);
  EXPECT_EQ(first.shape.physical_slots, 2);
  std::vector<std::vector<int>> held(8);
  for (ExpertId e : all<ExpertId>(12)) held[first.layer.home[e.index()].index()].push_back(e.value());
  for (const Copy& copy : first.plan.copies) held[copy.rank.index()].push_back(copy.expert.value());
  for (auto& experts : held) std::sort(experts.begin(), experts.end());
  EXPECT_EQ(held, (std::vector<std::vector<int>>{
                      {5, 6}, {5, 7}, {4, 8}, {3, 4}, {9, 10}, {2, 10}, {0, 1}, {1, 11}}));
  EXPECT_EQ(first.plan.copies.size(), 4u);
  EXPECT_EQ(first.plan.folded, 0);
  EXPECT_NEAR(slowest_over_mean(first.load), 1.2081, 5e-5);
  EXPECT_NEAR(slowest_over_mean(planned("eplb", options, kSecond).load), 1.2422, 5e-5);
}

// Three groups do not divide by nodes: copies anywhere. Expert 1 has both slots of rank 7 in the first layer,
// and so no copy; 8 both of rank 6 in the second.
TEST(Eplb, TwoSlotsOnOneRankAreFolded) {
  PolicyOptions options = options_of(kTwoNodes, 12, 0);
  options.details.expert_groups = 3;
  const Planned first = planned("eplb", options, kFirst), second = planned("eplb", options, kSecond);
  EXPECT_EQ(first.shape.domain, ReplicaDomain::group);
  EXPECT_EQ(first.plan.folded, 1);
  EXPECT_EQ(second.plan.folded, 1);
  EXPECT_EQ(first.plan.copies.size(), 3u);
  EXPECT_EQ(first.layer.home[1], EpRankId(7));
  EXPECT_EQ(first.load[7], 132 * 60);
  EXPECT_NEAR(slowest_over_mean(first.load), 1.0726, 5e-5);
  EXPECT_NEAR(slowest_over_mean(second.load), 1.1903, 5e-5);
}

// One expert of 10 tokens in four slots on two ranks: 3 + 3 at one, 2 + 2 at the other; two slots folded.
TEST(Eplb, FoldedSlotsKeepTheirShares) {
  const Planned one =
      planned("eplb", options_of({.ep_size = 2, .ep_groups = 1, .gpus_per_node = 2}, 1, 1), {10});
  EXPECT_EQ(one.load, (Loads{6, 4}));
  EXPECT_EQ(one.plan.folded, 2);
  EXPECT_EQ(one.plan.copies.size(), 1u);
}

TEST(Eplb, GroupsMustDivideExperts) {
  PolicyOptions options = options_of(kTwoNodes, 12, 1);
  options.details.expert_groups = 10;
  try {
    make_policy("eplb", options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_NE(std::string(error.what()).find("--expert-groups"), std::string::npos);
  }
}

// Homes that hold one of an expert's slots stay.
TEST(Eplb, ExpertsStayWhereTheyMay) {
  PolicyOptions options = options_of(kTwoNodes, 12, 0);
  options.details.expert_groups = 4;
  const auto policy = make_policy("eplb", options);
  const LayerLoads loads{1, 1, 12, kFirst};
  const LayerDecision once = decide(*policy, kFirst, 8);
  const LayerDecision again =
      policy->between_steps({.layer = LayerId(0), .loads = loads, .previous_home = once.home});
  EXPECT_EQ(once.home, again.home);
}

// What EPLB reaches with the loads of the micro-batch itself does not hang on the totals that it is shown.
TEST(EplbMicroBatch, PlansOnTheCellsOwnLoads) {
  const PolicyOptions options = options_of(kTwoNodes, 12, 0);
  const auto policy = make_policy("eplb-micro-batch", options);
  const LayerDecision layer = decide(*policy, kSecond, 8);
  const CellCounts counts = counts_of(kFirst, 8);
  const CellPlan plan = policy->inside_step(layer, counts);
  EXPECT_NEAR(slowest_over_mean(rank_loads(layer, counts, plan)), 1.0726, 5e-5);
  EXPECT_EQ(plan.folded, 1);
}

// On every graph: the split is the best that the copies allow, by all sets of ranks.
TEST(Lplb, SplitIsExact) {
  Random random(3);
  for (const auto& [graph, ranks, node, slots] : {std::tuple{"ring", 8, 8, 1},
                                                  {"cube", 8, 8, 2},
                                                  {"torus", 8, 4, 2},
                                                  {"torus", 6, 6, 2},
                                                  {"hypercube", 16, 8, 2}})
    for (int round = 0; round < (ranks == 16 ? 4 : 30); ++round) {
      PolicyOptions options =
          options_of({.ep_size = ranks, .ep_groups = 1, .gpus_per_node = node}, 3 * ranks, slots);
      options.details.lplb_graph = graph;
      const auto policy = make_policy("lplb", options);
      Loads total, cell;
      for (int e = 0; e < options.num_experts; ++e) {
        total.push_back(std::llround(300 * std::exp(random.normal())));
        cell.push_back(std::llround(static_cast<double>(total.back()) * std::exp(0.7 * random.normal())));
      }
      const LayerDecision layer = decide(*policy, total, ranks);
      const CellCounts counts = counts_of(cell, ranks);
      const CellPlan plan = policy->inside_step(layer, counts);
      ASSERT_EQ(plan.copies.size(), static_cast<std::size_t>(ranks * slots)) << graph;

      std::vector<std::int32_t> home;
      std::vector<std::vector<std::int32_t>> holders;
      for (EpRankId h : layer.home) {
        home.push_back(h.value());
        holders.push_back({h.value()});
      }
      for (const Copy& copy : plan.copies) {
        holders[copy.expert.index()].push_back(copy.rank.value());
        EXPECT_EQ(holders[copy.expert.index()].size(), 2u) << "one copy an expert";
      }
      const Loads load = rank_loads(layer, counts, plan);
      EXPECT_EQ(*std::max_element(load.begin(), load.end()), exact::best_split({ranks, home, cell}, holders))
          << graph;
    }
}

// Two ranks, loads 30 10 | 6 2: EPLB puts 30 and 2 on one rank, 10 and 6 on the other, and the ring has each
// copy the other's hottest: 24 each.
TEST(Lplb, RingByHand) {
  const Planned ring =
      planned("lplb", options_of({.ep_size = 2, .ep_groups = 1, .gpus_per_node = 2}, 4, 1), {30, 10, 6, 2});
  EXPECT_EQ(ring.layer.home, (std::vector<EpRankId>{EpRankId(0), EpRankId(1), EpRankId(1), EpRankId(0)}));
  EXPECT_EQ(ring.layer.step_copies,
            (std::vector<StepCopy>{{ExpertId(0), EpRankId(1)}, {ExpertId(1), EpRankId(0)}}));
  EXPECT_EQ(ring.load, (Loads{24, 24}));
}

// The quota vector over two nodes: in the group 51; in nodes only rank 1 can help rank 0.
TEST(UltraEp, DomainOfCopies) {
  PolicyOptions options = options_of({.ep_size = 4, .ep_groups = 1, .gpus_per_node = 2}, 8, 1);
  const Loads load{80, 20, 10, 10, 30, 10, 5, 35};
  EXPECT_EQ(planned("ultraep", options, load).load, (Loads{51, 51, 51, 47}));
  options.details.ultraep_domain = ReplicaDomain::node;
  const Planned in_nodes = planned("ultraep", options, load);
  EXPECT_EQ(in_nodes.shape.domain, ReplicaDomain::node);
  EXPECT_EQ(in_nodes.load, (Loads{61, 59, 40, 40}));
}

// 12 4 | 0 0 with one slot: on the totals expert 0 is copied to rank 1, and rank 0's free slot takes the
// largest that it lacks. A cell where only expert 1 has tokens then stays as it is.
TEST(RelibraSplit, CopiesStayForTheStep) {
  const auto policy =
      make_policy("relibra-split", options_of({.ep_size = 2, .ep_groups = 1, .gpus_per_node = 2}, 4, 1));
  const LayerDecision layer = decide(*policy, {12, 4, 0, 0}, 2);
  EXPECT_EQ(layer.step_copies,
            (std::vector<StepCopy>{{ExpertId(0), EpRankId(1)}, {ExpertId(2), EpRankId(0)}}));
  for (const auto& [cell, loads] :
       {std::pair<Loads, Loads>{{12, 4, 0, 0}, {8, 8}}, {{0, 5, 0, 0}, {5, 0}}, {{0, 0, 6, 1}, {3, 4}}}) {
    const CellCounts counts = counts_of(cell, 2);
    const CellPlan plan = policy->inside_step(layer, counts);
    EXPECT_EQ(plan.copies.size(), 2u);
    auto found = rank_loads(layer, counts, plan);
    EXPECT_EQ(*std::max_element(found.begin(), found.end()), *std::max_element(loads.begin(), loads.end()));
  }
}

// With free copies the hybrid is never slower than relibra, and mostly at the mean.
TEST(RelibraHybrid, FreeCopiesReachTheMean) {
  Random random(9);
  PolicyOptions options = options_of({.ep_size = 16, .ep_groups = 1, .gpus_per_node = 4}, 64, 2);
  options.tolerance = 0;
  options.search_moves = 1000;
  options.details.push_price = 0;
  for (int round = 0; round < 20; ++round) {
    Loads total, cell;
    for (int e = 0; e < 64; ++e) {
      total.push_back(std::llround(300 * std::exp(random.normal())));
      cell.push_back(std::llround(static_cast<double>(total.back()) * std::exp(0.5 * random.normal())));
    }
    const auto hybrid = make_policy("relibra-hybrid", options), inside = make_policy("relibra", options);
    const LayerDecision layer = decide(*hybrid, total, 16);
    const CellCounts counts = counts_of(cell, 16);
    const double across = slowest_over_mean(rank_loads(layer, counts, hybrid->inside_step(layer, counts)));
    EXPECT_LE(across, slowest_over_mean(rank_loads(layer, counts, inside->inside_step(layer, counts))));
    EXPECT_LE(across, 1.003);
  }
}

// Node 0 carries 3 of 4 parts. Moving pays where pushes are dear; where attention hides them experts stay.
TEST(RelibraHybrid, StaysWhereCopiesOnOtherNodesCostNothing) {
  PolicyOptions options = options_of({.ep_size = 4, .ep_groups = 1, .gpus_per_node = 2}, 8, 2);
  options.search_moves = 1000;
  options.move_cost = 10;
  options.details.push_price = 1000;
  const Loads load{300, 300, 300, 300, 100, 100, 100, 100};
  LayerLoads loads{.micro_batches = 1, .groups = 1, .experts = 8, .data = load};
  const Placement blocks = Placement::contiguous(1, 8, 4);
  const LayerInput input{.layer = LayerId(0), .loads = loads, .previous_home = blocks.layer(LayerId(0))};
  const auto moved = [&] {
    const LayerDecision decision = make_policy("relibra-hybrid", options)->between_steps(input);
    std::int64_t count = 0;
    for (std::size_t e = 0; e < 8; ++e) count += decision.home[e] != input.previous_home[e];
    return count;
  };
  options.details.push_shadow = 0;
  EXPECT_GT(moved(), 0);
  options.details.push_shadow = 100;  // of a mean of 400: 40 copies
  EXPECT_EQ(moved(), 0);
  options.move_cost = 0;
  EXPECT_GT(moved(), 0);
}

}  // namespace
}  // namespace relibra
