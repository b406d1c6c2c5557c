#include <algorithm>
#include <numeric>

#include "lib/planning/deal.h"
#include "lib/planning/pack.h"

namespace relibra {
namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// The sequences of one micro-batch in `shares` shares of even length.
struct Shares {
  std::vector<std::int32_t> members, share_of;
  std::vector<std::int64_t> load;  ///< (shares)
};

Shares deal_shares(const Sequences& sequences, std::vector<std::int32_t> members, int shares) {
  Shares result{.members = std::move(members), .share_of = {}, .load = std::vector<std::int64_t>(at(shares))};
  std::vector<std::int64_t> lengths;
  for (std::int32_t s : result.members) lengths.push_back(sequences.num_tokens[at(s)]);
  result.share_of = *deal_to_lightest(lengths, shares);
  for (std::size_t i = 0; i < lengths.size(); ++i) result.load[at(result.share_of[i])] += lengths[i];
  return result;
}

/// Sequences of every (micro-batch, group), ascending.
std::vector<std::vector<std::int32_t>> by_cell(std::span<const std::int32_t> micro_batch, int micro_batches,
                                               std::span<const std::int32_t> group, int groups) {
  std::vector<std::vector<std::int32_t>> cells(at(micro_batches) * at(groups));
  for (std::size_t s = 0; s < micro_batch.size(); ++s)
    cells[at(micro_batch[s]) * at(groups) + at(group.empty() ? 0 : group[s])].push_back(
        static_cast<std::int32_t>(s));
  return cells;
}

/// `total` ranks in runs of `size`, the last one shorter where it does not divide.
std::vector<std::int32_t> run_lengths(int total, int size) {
  std::vector<std::int32_t> runs;
  for (int first = 0; first < total; first += size) runs.push_back(std::min(size, total - first));
  return runs;
}

/// Numbers the items of each bin in order: item -> first slot of its bin + its place there.
std::vector<std::int32_t> to_slots(std::span<const std::int32_t> bin_of,
                                   std::span<const std::int32_t> capacity) {
  std::vector<std::int32_t> next(capacity.size());
  std::exclusive_scan(capacity.begin(), capacity.end(), next.begin(), 0);
  std::vector<std::int32_t> slot(bin_of.size());
  for (std::size_t i = 0; i < bin_of.size(); ++i) slot[i] = next[at(bin_of[i])]++;
  return slot;
}

}  // namespace

std::vector<std::int32_t> assign_groups(const RoutingDump& dump, std::span<const std::int32_t> micro_batch,
                                        int micro_batches, const Topology& topology) {
  std::vector<std::int32_t> group(micro_batch.size());
  if (topology.ep_groups == 1) return group;
  const std::vector<std::int32_t> capacity(at(topology.ep_groups), topology.ep_size);
  for (auto& members : by_cell(micro_batch, micro_batches, {}, 1)) {
    const Shares shares = deal_shares(dump.sequences, std::move(members), topology.world());
    const auto group_of = deal_by_count(shares.load, capacity);
    for (std::size_t i = 0; i < shares.members.size(); ++i)
      group[at(shares.members[i])] = group_of[at(shares.share_of[i])];
  }
  return group;
}

std::vector<std::int32_t> assign_sources(const RoutingDump& dump, std::span<const std::int32_t> micro_batch,
                                         int micro_batches, std::span<const std::int32_t> group,
                                         std::span<const std::int64_t> /*affinity*/,
                                         const Topology& topology) {
  std::vector<std::int32_t> source(micro_batch.size());
  const auto capacity = run_lengths(topology.ep_size, topology.domain_size());
  auto cells = by_cell(micro_batch, micro_batches, group, topology.ep_groups);
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const GroupId g(c % at(topology.ep_groups));
    const Shares shares = deal_shares(dump.sequences, std::move(cells[c]), topology.ep_size);
    const auto slot = to_slots(deal_by_count(shares.load, capacity), capacity);
    for (std::size_t i = 0; i < shares.members.size(); ++i)
      source[at(shares.members[i])] = topology.rank_of(g, EpRankId(slot[at(shares.share_of[i])])).value();
  }
  return source;
}

}  // namespace relibra
