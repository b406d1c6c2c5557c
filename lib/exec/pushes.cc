#include "lib/exec/pushes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace relibra::exec {
namespace {

/// Experts of one home that have copies, and how many messages it sends for each.
struct HomeFanOut {
  std::vector<std::span<const Copy>> experts;
  std::vector<int> direct;
};

/// Relays the experts with most copies, first in order on a tie, until the fan-out is within the limit.
void relay_until_within(HomeFanOut& home, int max_fan_out) {
  int total = 0;
  for (const int n : home.direct) total += n;
  while (max_fan_out > 0 && total > max_fan_out) {
    std::size_t widest = home.experts.size();
    for (std::size_t i = 0; i < home.experts.size(); ++i) {
      const auto copies = static_cast<int>(home.experts[i].size());
      const bool relayed = home.direct[i] < copies;
      if (relayed || relays_of(copies) == 0) continue;
      if (widest == home.experts.size() || home.experts[i].size() > home.experts[widest].size()) widest = i;
    }
    if (widest == home.experts.size()) return;
    const int relays = relays_of(static_cast<int>(home.experts[widest].size()));
    total -= home.direct[widest] - relays;
    home.direct[widest] = relays;
  }
}

/// The copies cut into `runs` contiguous, nearly equal runs; a copy alone in its run, or first, is sent to by
/// the home.
void add_edges(std::span<const Copy> copies, RankId home, int runs, std::vector<PushEdge>& edges) {
  for (int run = 0; run < runs; ++run) {
    const Range share = share_of(static_cast<std::int64_t>(copies.size()), run, runs);
    const Copy& head = copies[static_cast<std::size_t>(share.first)];
    edges.push_back({0, head.expert, home, head.rank});
    for (std::int64_t i = share.first + 1; i < share.last; ++i)
      edges.push_back({1, head.expert, head.rank, copies[static_cast<std::size_t>(i)].rank});
  }
}

}  // namespace

int relays_of(int copies) {
  if (copies < 4) return 0;
  return std::min(static_cast<int>(std::sqrt(static_cast<double>(copies))), 8);
}

std::vector<PushEdge> push_edges(const Holders& holders, int max_fan_out) {
  std::map<RankId, HomeFanOut> homes;
  const auto copies = holders.copies();
  for (std::size_t i = 0; i < copies.size();) {
    const auto of_expert = holders.copies(copies[i].expert);
    HomeFanOut& home = homes[holders.home(copies[i].expert)];
    home.experts.push_back(of_expert);
    home.direct.push_back(static_cast<int>(of_expert.size()));
    i += of_expert.size();
  }
  std::vector<PushEdge> edges;
  for (auto& [rank, home] : homes) {
    relay_until_within(home, max_fan_out);
    for (std::size_t i = 0; i < home.experts.size(); ++i)
      add_edges(home.experts[i], rank, home.direct[i], edges);
  }
  std::sort(edges.begin(), edges.end(), [](const PushEdge& a, const PushEdge& b) {
    return std::tie(a.round, a.expert, a.to) < std::tie(b.round, b.expert, b.to);
  });
  return edges;
}

RankPushes pushes_of(const Holders& holders, RankId rank, int max_fan_out) {
  RankPushes pushes;
  for (const PushEdge& edge : push_edges(holders, max_fan_out)) {
    if (edge.from == rank) pushes.sends[edge.round].push_back({edge.to, holders.slot(edge.expert, rank)});
    if (edge.to == rank) pushes.receives[edge.round].push_back({edge.from, holders.slot(edge.expert, rank)});
  }
  for (const Copy& copy : holders.copies()) {
    const RankId home = holders.home(copy.expert);
    if (copy.rank == rank) pushes.return_sends.push_back({home, holders.slot(copy.expert, rank)});
    if (home == rank) pushes.return_receives.push_back({copy.rank, holders.slot(copy.expert, rank)});
  }
  return pushes;
}

}  // namespace relibra::exec
