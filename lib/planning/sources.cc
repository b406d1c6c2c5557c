#include <algorithm>
#include <numeric>

#include "lib/planning/deal.h"
#include "lib/planning/pack.h"

namespace relibra {
namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Sequences of every micro-batch, or of every (micro-batch, group), ascending.
std::vector<std::vector<std::int32_t>> by_cell(const Packing& packing, std::span<const std::int32_t> group,
                                               int groups) {
  std::vector<std::vector<std::int32_t>> cells(at(packing.micro_batches) * at(groups));
  for (std::size_t s = 0; s < packing.micro_batch.size(); ++s)
    cells[at(packing.micro_batch[s]) * at(groups) + at(group.empty() ? 0 : group[s])].push_back(
        static_cast<std::int32_t>(s));
  return cells;
}

/// The shares that some sequences are in, renumbered from 0 in ascending order, and empty ones up to `count`.
struct Shares {
  std::vector<std::int32_t> share_of;  ///< (members)
  std::vector<std::int64_t> load;      ///< (count) tokens
};

Shares shares_of(const Sequences& sequences, const Packing& packing, std::span<const std::int32_t> members,
                 int count, int world) {
  std::vector<std::int32_t> number(at(world), -1);
  for (std::int32_t s : members) number[at(packing.share[at(s)])] = 0;
  std::int32_t used = 0;
  for (auto& n : number)
    if (n == 0) n = used++;
  Shares shares{.share_of = {}, .load = std::vector<std::int64_t>(at(count))};
  for (std::int32_t s : members) {
    shares.share_of.push_back(number[at(packing.share[at(s)])]);
    shares.load[at(shares.share_of.back())] += sequences.num_tokens[at(s)];
  }
  return shares;
}

/// The shares of one (micro-batch, group) on the nodes of the group.
struct OnNodes {
  std::span<const std::int64_t> load;   ///< (shares) tokens
  std::vector<std::int64_t> near;       ///< (shares, nodes) assignments at home on the node
  std::vector<std::int64_t> node_load;  ///< (nodes) tokens
  std::vector<std::int32_t> node_of;    ///< (shares)
};

/// Swaps shares of different nodes while that raises the assignments at home, for a few rounds. No node may
/// rise above the fullest one, or above the mean by half a per cent, which tells like lengths from others.
void move_near_experts(OnNodes& c) {
  constexpr int kRounds = 8;
  const std::size_t nodes = c.node_load.size();
  const std::int64_t mean = std::accumulate(c.node_load.begin(), c.node_load.end(), std::int64_t{0}) /
                            static_cast<std::int64_t>(nodes);
  const std::int64_t limit =
      std::max(*std::max_element(c.node_load.begin(), c.node_load.end()), mean + mean / 200);
  bool any = true;
  for (int round = 0; round < kRounds && any; ++round) {
    any = false;
    for (std::size_t i = 0; i < c.node_of.size(); ++i)
      for (std::size_t j = i + 1; j < c.node_of.size(); ++j) {
        const std::size_t p = at(c.node_of[i]), q = at(c.node_of[j]);
        if (p == q) continue;
        const std::int64_t gain =
            c.near[i * nodes + q] + c.near[j * nodes + p] - c.near[i * nodes + p] - c.near[j * nodes + q];
        const std::int64_t change = c.load[j] - c.load[i];
        if (gain <= 0 || std::max(c.node_load[p] + change, c.node_load[q] - change) > limit) continue;
        c.node_load[p] += change;
        c.node_load[q] -= change;
        std::swap(c.node_of[i], c.node_of[j]);
        any = true;
      }
  }
}

/// Node of every share, numbered inside the group. `affinity` (S, nodes) is of the whole job, or empty.
std::vector<std::int32_t> nodes_of_shares(const Shares& shares, std::span<const std::int32_t> members,
                                          GroupId group, std::span<const std::int64_t> affinity,
                                          const Topology& topology) {
  const auto nodes = at(topology.domains_per_group());
  OnNodes on{.load = shares.load,
             .near = {},
             .node_load = std::vector<std::int64_t>(nodes),
             .node_of = deal_by_count(shares.load, topology.domains_per_group())};
  if (affinity.empty() || nodes == 1) return on.node_of;
  on.near.resize(shares.load.size() * nodes);
  const auto first_node = topology.node_of(topology.rank_of(group, EpRankId(0))).index();
  for (std::size_t i = 0; i < members.size(); ++i)
    for (std::size_t n = 0; n < nodes; ++n)
      on.near[at(shares.share_of[i]) * nodes + n] +=
          affinity[at(members[i]) * at(topology.nodes()) + first_node + n];
  for (std::size_t i = 0; i < on.node_of.size(); ++i) on.node_load[at(on.node_of[i])] += shares.load[i];
  move_near_experts(on);
  return on.node_of;
}

/// Ranks in the order of their nodes: (items) first rank of the item's node + its place there.
std::vector<std::int32_t> to_ranks(std::span<const std::int32_t> node_of, int nodes, int ranks) {
  std::vector<std::int32_t> next, rank;
  for (int n = 0; n < nodes; ++n) next.push_back(n * ranks);
  for (std::int32_t n : node_of) rank.push_back(next[at(n)]++);
  return rank;
}

}  // namespace

std::vector<std::int32_t> assign_groups(const RoutingDump& dump, const Packing& packing,
                                        const Topology& topology) {
  std::vector<std::int32_t> group(packing.micro_batch.size());
  if (!dump.sequences.source_rank.empty()) {
    for (std::size_t s = 0; s < group.size(); ++s)
      group[s] = topology.group_of(RankId(dump.sequences.source_rank[s])).value();
    return group;
  }
  for (const auto& members : by_cell(packing, {}, 1)) {
    const Shares shares = shares_of(dump.sequences, packing, members, topology.world(), topology.world());
    const auto group_of = deal_by_count(shares.load, topology.ep_groups);
    for (std::size_t i = 0; i < members.size(); ++i) group[at(members[i])] = group_of[at(shares.share_of[i])];
  }
  return group;
}

std::vector<std::int32_t> assign_sources(const RoutingDump& dump, const Packing& packing,
                                         std::span<const std::int32_t> group,
                                         std::span<const std::int64_t> affinity, const Topology& topology) {
  if (!dump.sequences.source_rank.empty()) return dump.sequences.source_rank;
  std::vector<std::int32_t> source(packing.micro_batch.size());
  const auto cells = by_cell(packing, group, topology.ep_groups);
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const GroupId g(c % at(topology.ep_groups));
    const Shares shares = shares_of(dump.sequences, packing, cells[c], topology.ep_size, topology.world());
    const auto rank = to_ranks(nodes_of_shares(shares, cells[c], g, affinity, topology),
                               topology.domains_per_group(), topology.domain_size());
    for (std::size_t i = 0; i < cells[c].size(); ++i)
      source[at(cells[c][i])] = topology.rank_of(g, EpRankId(rank[at(shares.share_of[i])])).value();
  }
  return source;
}

}  // namespace relibra
