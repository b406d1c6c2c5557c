#include "lib/planning/reorder.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "lib/model/placement.h"
#include "lib/planning/anneal.h"
#include "lib/planning/bins.h"

namespace relibra {
namespace {

std::vector<std::int32_t> search_bins(const ItemLoads& loads, int bins, int capacity,
                                      const BinObjective& objective, std::span<const std::int32_t> before,
                                      std::int64_t moves, std::uint64_t seed) {
  Bins state(loads, bins, capacity);
  auto start = largest_first(loads, bins, capacity);
  match_bins(start, before, bins);
  state.assign(loads, start);
  anneal(loads, state, objective, moves, seed);
  descend(loads, state, objective);
  auto found = state.bin_of_item();
  found.resize(start.size());
  return found;
}

}  // namespace

ReorderResult reorder_experts(const LayerLoads& loads, const Topology& topology,
                              std::span<const EpRankId> previous, const ReorderOptions& options) {
  const int domains = topology.domains_per_group(), ranks = topology.domain_size();
  const int slots = home_slots(loads.experts, topology.ep_size);
  std::vector<std::int32_t> everyone(static_cast<std::size_t>(loads.experts)), before(everyone.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  for (std::size_t e = 0; e < before.size(); ++e) before[e] = topology.domain_of(previous[e]);
  const ItemLoads by_domain(loads, everyone, domains);
  const auto domain = search_bins(by_domain, domains, ranks * slots, {}, before, options.moves, options.seed);

  ReorderResult result{.home = std::vector<EpRankId>(everyone.size()), .moves = options.moves};
  for (int d = 0; d < domains; ++d) {
    std::vector<std::int32_t> members;
    for (std::int32_t e : everyone)
      if (domain[static_cast<std::size_t>(e)] == d) members.push_back(e);
    const ItemLoads by_rank(loads, members, ranks);
    std::vector<std::int32_t> rank_before(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      const EpRankId was = previous[static_cast<std::size_t>(members[i])];
      rank_before[i] = topology.domain_of(was) == d ? was.value() % ranks : -1;
    }
    auto rank = largest_first(by_rank, ranks, slots);
    match_bins(rank, rank_before, ranks);
    for (std::size_t i = 0; i < members.size(); ++i)
      result.home[static_cast<std::size_t>(members[i])] = EpRankId(d * ranks + rank[i]);
  }
  return result;
}

}  // namespace relibra
