// Stage 2 on one core: microseconds a node, and a cell of the whole policy, beside sorting the same loads.
//
//   replicate_bench [NODES]
//
// Loads are those of an annealed placement in kind: experts dealt largest first by totals that are 35 % off a
// cell's weights. "in order" is before any reordering.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "apps/bench/timing.h"
#include "lib/base/random.h"
#include "lib/planning/replicate.h"
#include "lib/policy/policy.h"

namespace {

using namespace relibra;

constexpr int kRepeats = 5;

struct Node {
  int ranks = 0;
  std::vector<std::int32_t> home;
  std::vector<std::int64_t> load;
};

Node random_node(Random& random, int ranks, int per_rank, bool in_order) {
  const auto experts = static_cast<std::size_t>(ranks * per_rank);
  Node node{ranks, std::vector<std::int32_t>(experts), {}};
  std::vector<double> total;
  for (std::size_t e = 0; e < experts; ++e) {
    const double weight = std::exp(0.8 * random.normal());
    node.load.push_back(static_cast<std::int64_t>(2000 * weight));
    total.push_back(weight * std::exp(0.35 * random.normal()));
    node.home[e] = static_cast<std::int32_t>(e) / per_rank;
  }
  if (in_order) return node;
  std::vector<std::size_t> order(experts);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return total[a] > total[b]; });
  std::vector<double> sum(static_cast<std::size_t>(ranks), 0);
  std::vector<int> held(sum.size(), 0);
  for (std::size_t e : order) {
    std::size_t best = sum.size();
    for (std::size_t r = 0; r < sum.size(); ++r)
      if (held[r] < per_rank && (best == sum.size() || sum[r] < sum[best])) best = r;
    node.home[e] = static_cast<std::int32_t>(best);
    sum[best] += total[e];
    ++held[best];
  }
  return node;
}

void run_nodes(int nodes, int ranks, int per_rank, bool in_order, const ReplicateOptions& options) {
  Random random(1);
  std::vector<Node> all_nodes;
  for (int i = 0; i < nodes; ++i) all_nodes.push_back(random_node(random, ranks, per_rank, in_order));
  std::size_t copies = 0;
  double above = 0;
  const double plan_s = bench::median_seconds(kRepeats, [&] {
    copies = 0;
    above = 0;
    for (const Node& n : all_nodes) {
      const DomainPlan plan = replicate({n.ranks, n.home, n.load}, options);
      copies += plan.quotas.size();
      above += static_cast<double>(plan.max_load) / static_cast<double>(plan.bound) - 1;
    }
  });
  std::vector<std::int64_t> sorted;
  const double sort_s = bench::median_seconds(kRepeats, [&] {
    for (const Node& n : all_nodes) {
      sorted = n.load;
      std::sort(sorted.begin(), sorted.end());
    }
  });
  std::printf(
      "%2d ranks x %2d experts %-9s V %d tolerance %3.1f %%: %6.2f us a node, %5.2f sorts of the loads; "
      "%5.2f "
      "copies, %.3f %% above the bound\n",
      ranks, per_rank, in_order ? "in order" : "reordered", options.slots, 100 * options.tolerance,
      1e6 * plan_s / nodes, plan_s / sort_s, static_cast<double>(copies) / nodes, 100 * above / nodes);
}

// A cell of E experts on P ranks in nodes of 8, source tokens spread evenly with noise.
void run_cells(int cells, int ep_size, int experts) {
  PolicyOptions options;
  options.topology = {.ep_size = ep_size, .ep_groups = 1, .gpus_per_node = 8};
  options.num_experts = experts;
  const auto policy = make_policy("relibra-replicate", options);
  const LayerDecision layer = policy->between_steps({.layer = LayerId(0), .loads = {}, .previous_home = {}});
  Random random(2);
  std::vector<CellCounts> counts;
  for (int i = 0; i < cells; ++i) {
    counts.emplace_back(experts, ep_size);
    for (ExpertId e : all<ExpertId>(experts)) {
      const double weight = 60 * std::exp(0.8 * random.normal());
      for (RankId r : all<RankId>(ep_size))
        counts.back().at(e, r) = static_cast<std::int32_t>(weight * (0.5 + random.uniform()));
    }
  }
  std::size_t entries = 0;
  const double seconds = bench::median_seconds(kRepeats, [&] {
    entries = 0;
    for (const CellCounts& c : counts) entries += policy->inside_step(layer, c).split.size();
  });
  std::printf("cell of %3d experts on %2d ranks: %6.1f us, %.0f split entries\n", experts, ep_size,
              1e6 * seconds / cells, static_cast<double>(entries) / cells);
}

}  // namespace

int main(int argc, char** argv) {
  const int nodes = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2000;
  for (int per_rank : {4, 8, 16})
    for (bool in_order : {false, true})
      for (int slots : {1, 2})
        for (double tolerance : {0.0, 0.01})
          run_nodes(nodes, 8, per_rank, in_order, {.slots = slots, .tolerance = tolerance});
  run_nodes(std::max(1, nodes / 10), 64, 4, false, {.slots = 2, .tolerance = 0.01});
  run_cells(std::max(1, nodes / 4), 16, 128);
  run_cells(std::max(1, nodes / 4), 32, 128);
  run_cells(std::max(1, nodes / 4), 64, 256);
}
