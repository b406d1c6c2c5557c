#include "lib/job/recount_deal.h"

#include <omp.h>

#include <algorithm>

#include "lib/base/parallel.h"
#include "lib/base/random.h"

namespace relibra {
namespace {

bool usable(const SplitEntry& entry, int experts, const Topology& t) {
  const auto inside = [](std::int32_t value, int end) { return value >= 0 && value < end; };
  return inside(entry.expert.value(), experts) && inside(entry.source.value(), t.world()) &&
         inside(entry.rank.value(), t.world()) && t.group_of(entry.source) == t.group_of(entry.rank) &&
         entry.tokens > 0;
}

/// The next entries of one expert. Calls f(first, last) for each run of equal experts.
template <class F>
void for_each_expert(std::span<const SplitEntry> entries, const F& f) {
  for (auto at = entries.begin(); at != entries.end();) {
    const auto end =
        std::find_if(at, entries.end(), [&](const SplitEntry& x) { return x.expert != at->expert; });
    f(at, end);
    at = end;
  }
}

}  // namespace

MicroBatchDealer::MicroBatchDealer(const RoutingDump& dump, const Plan& plan, const PlanCells& cells,
                                   const MicroBatchShare& share)
    : dump_(dump),
      plan_(plan),
      cells_(cells),
      share_(share),
      topology_(plan.header.topology),
      missing_(dump.header),
      experts_(static_cast<std::size_t>(dump.header.num_experts)),
      top_k_(static_cast<std::size_t>(dump.header.top_k)),
      blocks_(Placement::contiguous(1, dump.header.num_experts, topology_.ep_size)),
      layers_(static_cast<std::size_t>(dump.header.num_layers())) {
  parallel_for(dump.header.num_layers(), [&](std::int64_t l) { prepare(LayerId(l)); });
}

void MicroBatchDealer::prepare(LayerId l) {
  Layer& layer = layers_[l.index()];
  for (ExpertId e : all<ExpertId>(experts_)) {
    layer.before_node.push_back(topology_.domain_of(blocks_.home(LayerId(0), e)));
    layer.after_node.push_back(topology_.domain_of(plan_.placement.home(l, e)));
  }
  const std::size_t bins = share_.sources.size();
  layer.sequence_counts.resize(experts_ + 1);
  layer.counts.resize(bins * experts_);
  if (topology_.domains_per_group() > 1) {
    layer.lanes = LaneTable(topology_.domains_per_group(), layer.before_node, layer.after_node);
    layer.touched.resize(bins * static_cast<std::size_t>(layer.lanes.lanes()));
    layer.touched_last.resize(static_cast<std::size_t>(layer.lanes.lanes()));
  }
  take_own_split(l);
  queue_copies_elsewhere(l);
}

/// The cell's usable entries of this process's sources, by bin and expert, otherwise in the order in which
/// they stand. A valid list is sorted by expert already.
void MicroBatchDealer::take_own_split(LayerId l) {
  Layer& layer = layers_[l.index()];
  std::vector<std::int32_t> bin_of(static_cast<std::size_t>(topology_.world()), -1);
  for (std::size_t b = 0; b < share_.sources.size(); ++b)
    bin_of[share_.sources[b].index()] = static_cast<std::int32_t>(b);
  const auto bin = [&](const SplitEntry& entry) {
    return usable(entry, plan_.header.num_experts, topology_) ? bin_of[entry.source.index()] : -1;
  };
  const auto entries = cells_.split_of(plan_.header.cell(share_.micro_batch, l));
  layer.split_offset.assign(share_.sources.size() + 1, 0);
  for (const SplitEntry& entry : entries)
    if (bin(entry) >= 0) ++layer.split_offset[static_cast<std::size_t>(bin(entry)) + 1];
  for (std::size_t b = 0; b < share_.sources.size(); ++b) layer.split_offset[b + 1] += layer.split_offset[b];
  layer.split.resize(layer.split_offset.back());
  auto next = layer.split_offset;
  for (const SplitEntry& entry : entries)
    if (bin(entry) >= 0) layer.split[next[static_cast<std::size_t>(bin(entry))]++] = entry;
  const auto by_expert = [](const SplitEntry& a, const SplitEntry& b) { return a.expert < b.expert; };
  for (std::size_t b = 0; b < share_.sources.size(); ++b) {
    const auto first = layer.split.begin() + static_cast<std::ptrdiff_t>(layer.split_offset[b]);
    const auto last = layer.split.begin() + static_cast<std::ptrdiff_t>(layer.split_offset[b + 1]);
    if (!std::is_sorted(first, last, by_expert)) std::stable_sort(first, last, by_expert);
  }
}

/// Where all holders of an expert share a node, a token's node does not depend on the dealing. The other
/// experts get a queue of their entries per bin.
void MicroBatchDealer::queue_copies_elsewhere(LayerId l) {
  Layer& layer = layers_[l.index()];
  const std::size_t bins = share_.sources.size();
  layer.queue_of.resize(static_cast<std::size_t>(topology_.ep_groups));
  layer.queues.resize(bins);
  std::vector<std::int32_t> queues(layer.queue_of.size());
  for (std::size_t b = 0; b < bins; ++b) {
    auto& queue_of = layer.queue_of[group_of(b).index()];
    auto& used = queues[group_of(b).index()];
    for_each_expert(split_of(layer, b), [&](auto first, auto last) {
      const std::size_t e = first->expert.index();
      const bool leaves = std::any_of(first, last, [&](const SplitEntry& entry) {
        return topology_.domain_of(topology_.ep_rank_of(entry.rank)) != layer.after_node[e];
      });
      if (!leaves) return;
      if (queue_of.empty()) queue_of.resize(experts_, -1);
      if (queue_of[e] < 0) queue_of[e] = used++;
      layer.queues[b].resize(static_cast<std::size_t>(used));
      layer.queues[b][static_cast<std::size_t>(queue_of[e])] = {.next = &*first,
                                                                .end = &*first + (last - first)};
    });
  }
  for (std::size_t b = 0; b < bins; ++b)
    layer.queues[b].resize(static_cast<std::size_t>(queues[group_of(b).index()]));
}

std::vector<MicroBatchDealer::Segment> MicroBatchDealer::segments_of(const RoutingBlock& block) {
  std::vector<Segment> segments;
  const auto& offset = dump_.sequences.row_offset;
  for (std::int64_t row = block.first_row; row < block.first_row + block.rows;) {
    while (offset[static_cast<std::size_t>(share_.sequences[at_]) + 1] <= row) ++at_;
    const std::int64_t sequence = share_.sequences[at_];
    const std::int64_t end = offset[static_cast<std::size_t>(sequence) + 1];
    const std::int64_t rows = std::min({end, block.first_row + block.rows, row + kTallyRows}) - row;
    segments.push_back({.sequence = sequence,
                        .bin = static_cast<std::size_t>(share_.bin[at_]),
                        .first = row - block.first_row,
                        .rows = rows,
                        .ends = row + rows == end});
    row += rows;
  }
  return segments;
}

void MicroBatchDealer::take(const RoutingBlock& block) {
  const std::vector<Segment> segments = segments_of(block);
  block.with_ids([&](const auto* ids) {
#pragma omp parallel
    {
      // Layers inside, segments outside: the ids of a segment stay in the cache for all layers of a thread.
      const Range mine = share_of(std::ssize(layers_), omp_get_thread_num(), omp_get_num_threads());
      for (const Segment& segment : segments)
        for (std::int64_t l = mine.first; l < mine.last; ++l) {
          const auto at =
              (static_cast<std::size_t>(segment.first) * layers_.size() + static_cast<std::size_t>(l)) *
              top_k_;
          deal(layers_[static_cast<std::size_t>(l)], ids + at, segment);
          if (segment.ends) end_sequence(LayerId(l), segment);
        }
    }
  });
}

template <class T>
void MicroBatchDealer::deal(Layer& layer, const T* ids, const Segment& segment) {
  const std::uint32_t unknown = layer.sequence_counts[experts_];
  if (!layer.queue_of[group_of(segment.bin).index()].empty()) {
    deal_by_queue(layer, ids, segment);
  } else {
    const auto lanes = static_cast<std::size_t>(layer.lanes.lanes());
    std::uint32_t* touched = layer.touched.data() + segment.bin * lanes;
    tally(ids, segment.rows, static_cast<std::int64_t>(layers_.size() * top_k_), static_cast<int>(top_k_),
          static_cast<std::uint32_t>(experts_), layer.lanes, layer.sequence_counts.data(), touched);
  }
  if (layer.sequence_counts[experts_] != unknown) count_invalid(layer, ids, segment);
}

template <class T>
void MicroBatchDealer::deal_by_queue(Layer& layer, const T* ids, const Segment& segment) {
  const auto& queue_of = layer.queue_of[group_of(segment.bin).index()];
  const auto lanes = static_cast<std::size_t>(layer.lanes.lanes());
  std::uint32_t* touched = layer.touched.data() + segment.bin * lanes;
  std::vector<std::int64_t>& seen = layer.touched_last;
  std::fill(seen.begin(), seen.end(), -1);
  for (std::int64_t row = 0; row < segment.rows; ++row, ids += layers_.size() * top_k_) {
    const auto touch = [&](std::size_t lane) {
      if (seen[lane] != row) ++touched[lane];
      seen[lane] = row;
    };
    for (std::size_t j = 0; j < top_k_; ++j) {
      const std::size_t e = expert_index(ids[j], static_cast<std::uint32_t>(experts_));
      ++layer.sequence_counts[e];
      if (e == experts_) continue;
      touch(static_cast<std::size_t>(layer.before_node[e]));
      std::int32_t node = layer.after_node[e];
      if (queue_of[e] >= 0) {
        Queue& queue = layer.queues[segment.bin][static_cast<std::size_t>(queue_of[e])];
        if (queue.left == 0 && queue.next != queue.end) {
          queue.left = queue.next->tokens;
          queue.node = topology_.domain_of(topology_.ep_rank_of(queue.next->rank));
          ++queue.next;
        }
        if (queue.left > 0) {
          node = queue.node;
          --queue.left;
        }
      }
      touch(static_cast<std::size_t>(topology_.domains_per_group() + node));
    }
  }
}

template <class T>
void MicroBatchDealer::count_invalid(Layer& layer, const T* ids, const Segment& segment) {
  for (std::int64_t row = 0; row < segment.rows; ++row, ids += layers_.size() * top_k_)
    for (std::size_t j = 0; j < top_k_; ++j)
      if (expert_index(ids[j], static_cast<std::uint32_t>(experts_)) == experts_)
        ++(missing_(ids[j]) ? layer.totals.missing : layer.totals.invalid);
}

void MicroBatchDealer::end_sequence(LayerId l, const Segment& segment) {
  Layer& layer = layers_[l.index()];
  const auto first = (static_cast<std::uint64_t>(segment.sequence) * layers_.size() + l.index()) * experts_;
  std::int32_t* counts = layer.counts.data() + segment.bin * experts_;
  for (std::size_t e = 0; e < experts_; ++e) {
    const std::uint32_t c = layer.sequence_counts[e];
    if (c == 0) continue;
    layer.totals.digest += mix64(mix64(first + e + 1) ^ c);
    layer.totals.assignments += c;
    counts[e] += static_cast<std::int32_t>(c);
  }
  std::fill(layer.sequence_counts.begin(), layer.sequence_counts.end(), 0);
}

void MicroBatchDealer::fold_traffic(LayerId l, std::size_t bin, MicroBatchRecount& tables) const {
  const Layer& layer = layers_[l.index()];
  const int nodes = topology_.domains_per_group();
  if (nodes == 1) return;
  const RankId source = share_.sources[bin];
  const int own = topology_.domain_of(topology_.ep_rank_of(source));
  const int first_node = group_of(bin).value() * nodes;
  for (const auto side : {MicroBatchRecount::before, MicroBatchRecount::after})
    for (int n = 0; n < nodes; ++n) {
      if (n == own) continue;
      const auto lanes = static_cast<std::size_t>(layer.lanes.lanes());
      const std::int64_t pairs = layer.touched[bin * lanes + static_cast<std::size_t>(side * nodes + n)];
      tables.sent(side, l)[static_cast<std::size_t>(first_node + own)] += pairs;
      tables.received(side, l)[static_cast<std::size_t>(first_node + n)] += pairs;
    }
}

/// (P) assignments of a bin by rank: home, except where a split sums to the count.
void MicroBatchDealer::transfer_of(LayerId l, std::size_t bin, std::span<std::int32_t> transfer) const {
  const Layer& layer = layers_[l.index()];
  const std::int32_t* counts = layer.counts.data() + bin * experts_;
  const auto home = plan_.placement.layer(l);
  for (std::size_t e = 0; e < experts_; ++e) transfer[home[e].index()] += counts[e];
  for_each_expert(split_of(layer, bin), [&](auto first, auto last) {
    const std::size_t e = first->expert.index();
    std::int64_t sum = 0;
    for (auto entry = first; entry != last; ++entry) sum += entry->tokens;
    if (sum != counts[e]) return;
    transfer[home[e].index()] -= counts[e];
    for (auto entry = first; entry != last; ++entry)
      transfer[topology_.ep_rank_of(entry->rank).index()] += entry->tokens;
  });
}

/// Adds the loads of one bin and layer to the tables; `transfer` (P) is filled.
void MicroBatchDealer::fold_bin(LayerId l, std::size_t bin, std::span<std::int32_t> transfer,
                                MicroBatchRecount& tables) const {
  transfer_of(l, bin, transfer);
  fold_traffic(l, bin, tables);
  const GroupId group = group_of(bin);
  const std::int32_t* counts = layers_[l.index()].counts.data() + bin * experts_;
  const auto by_expert = tables.expert_tokens(l, group);
  const auto before = tables.rank_tokens(MicroBatchRecount::before, l);
  const auto after = tables.rank_tokens(MicroBatchRecount::after, l);
  for (ExpertId e : all<ExpertId>(experts_)) {
    by_expert[e.index()] += counts[e.index()];
    before[topology_.rank_of(group, blocks_.home(LayerId(0), e)).index()] += counts[e.index()];
  }
  for (EpRankId p : all<EpRankId>(topology_.ep_size))
    after[topology_.rank_of(group, p).index()] += transfer[p.index()];
}

void MicroBatchDealer::finish(MicroBatchRecount& tables, RecountVisitor& visitor) {
  for (std::int32_t s : share_.sequences) tables.rows() += dump_.sequences.rows(s);
  const std::size_t layers = layers_.size(), width = static_cast<std::size_t>(topology_.ep_size);
  std::vector<std::int32_t> counts(layers * experts_), transfer(layers * width);
  std::vector<std::span<const SplitEntry>> split(layers);
  for (std::size_t bin = 0; bin < share_.sources.size(); ++bin) {
    std::fill(transfer.begin(), transfer.end(), 0);
    for (std::size_t l = 0; l < layers; ++l) {
      fold_bin(LayerId(l), bin, std::span(transfer).subspan(l * width, width), tables);
      const auto load = std::span(layers_[l].counts).subspan(bin * experts_, experts_);
      std::copy(load.begin(), load.end(), counts.begin() + static_cast<std::ptrdiff_t>(l * experts_));
      split[l] = split_of(layers_[l], bin);
    }
    visitor.bin(cells_, {.micro_batch = share_.micro_batch,
                         .source = share_.sources[bin],
                         .counts = counts,
                         .transfer = transfer,
                         .split = split});
  }
}

DealtTotals MicroBatchDealer::totals() const {
  DealtTotals sum;
  for (const Layer& layer : layers_) {
    sum.digest += layer.totals.digest;
    sum.assignments += layer.totals.assignments;
    sum.missing += layer.totals.missing;
    sum.invalid += layer.totals.invalid;
  }
  return sum;
}

}  // namespace relibra
