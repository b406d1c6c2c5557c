#include "lib/planning/split.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace relibra {
namespace {

// What is still to be dealt: tokens of each source of the group, and room at each holder.
struct Dealer {
  ExpertId expert;
  GroupId group;
  const Topology& topology;
  std::vector<std::int32_t> tokens;  // (P)
  std::vector<HolderQuota> room;
  std::vector<SplitEntry>& out;

  void give(int source, HolderQuota& holder) {
    auto& have = tokens[static_cast<std::size_t>(source)];
    const auto n = static_cast<std::int32_t>(std::min<std::int64_t>(have, holder.tokens));
    if (n == 0) return;
    out.push_back({expert, topology.rank_of(group, EpRankId(source)), holder.rank, n});
    have -= n;
    holder.tokens -= n;
  }

  // Deals sources [first, last) of the group to the holders that `takes` accepts, both in order.
  template <class Takes>
  void deal(int first, int last, Takes takes) {
    auto holder = room.begin();
    for (int source = first; source < last; ++source)
      while (tokens[static_cast<std::size_t>(source)] > 0) {
        while (holder != room.end() && (holder->tokens == 0 || !takes(*holder))) ++holder;
        if (holder == room.end()) return;
        give(source, *holder);
      }
  }
};

}  // namespace

void split_by_source(ExpertId expert, GroupId group, const Topology& topology,
                     std::span<const std::int32_t> source_tokens, std::span<const HolderQuota> holders,
                     std::vector<SplitEntry>& out) {
  const auto begin = static_cast<std::ptrdiff_t>(out.size());
  Dealer dealer{
      expert, group, topology, {source_tokens.begin(), source_tokens.end()}, {holders.begin(), holders.end()},
      out};
  for (HolderQuota& h : dealer.room) dealer.give(topology.ep_rank_of(h.rank).value(), h);
  const int domain = topology.domain_size();
  for (int first = 0; first < topology.ep_size; first += domain) {
    const NodeId node = topology.node_of(topology.rank_of(group, EpRankId(first)));
    dealer.deal(first, first + domain,
                [&](const HolderQuota& h) { return topology.node_of(h.rank) == node; });
  }
  dealer.deal(0, topology.ep_size, [](const HolderQuota&) { return true; });
  assert(std::accumulate(dealer.tokens.begin(), dealer.tokens.end(), std::int64_t{0}) == 0);
  std::sort(out.begin() + begin, out.end());
}

}  // namespace relibra
