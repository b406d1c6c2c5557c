#include "lib/planning/repack.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "lib/base/clones.h"

namespace relibra {
namespace {

constexpr int kNear = 128;                   // partners tried on either side by length
constexpr int kAlike = 16;                   // whose length differs by at most one part in so many
constexpr int kRounds = 40;                  // further ones gain nothing worth their time
constexpr std::int64_t kLeastGain = 20'000;  // a round that gains less than this part of the sum is the last

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Sum over layers of the most loaded node of `load` + `in` - `out`, all (nodes, layers). `most` (layers) is
/// scratch.
RELIBRA_CLONES std::int64_t sum_of_most(const std::int32_t* load, const std::int32_t* in,
                                        const std::int32_t* out, int nodes, int layers, std::int32_t* most) {
  std::fill(most, most + layers, 0);
  for (int n = 0; n < nodes; ++n, load += layers, in += layers, out += layers)
    for (int l = 0; l < layers; ++l) most[l] = std::max(most[l], load[l] + in[l] - out[l]);
  std::int64_t sum = 0;
  for (int l = 0; l < layers; ++l) sum += most[l];
  return sum;
}

class Repacker {
 public:
  Repacker(const RoutingDump& dump, const SequenceNodeLoads& loads, int groups, Packing& packing,
           std::span<std::int32_t> group)
      : dump_(dump),
        loads_(loads),
        groups_(groups),
        packing_(packing),
        group_(group),
        most_(at(loads.layers)) {
    bins_.assign(at(packing.micro_batches * groups), std::vector<std::int32_t>(width()));
    for (std::int64_t s = 0; s < sequences(); ++s) {
      change(bins_[bin_of(s)], s, +1);
      share_tokens_[share_of(s)] += dump.sequences.num_tokens[at(s)];
    }
    limit_.assign(at(packing.micro_batches), 0);
    for (const auto& [share, tokens] : share_tokens_)
      limit_[at(share.first)] = std::max(limit_[at(share.first)], tokens);
    const std::vector<std::int32_t> none(width());
    for (const auto& bin : bins_)
      time_.push_back(
          sum_of_most(bin.data(), none.data(), none.data(), loads.nodes, loads.layers, most_.data()));
    sort_into_pools();
  }

  RepackResult run() {
    RepackResult result{.before = total(), .after = total()};
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t first = 0; first < order_.size(); ++first)
        for (std::size_t second = first + 1; second < order_.size() && alike(first, second); ++second)
          if (try_swap(order_[first], order_[second])) ++result.swaps;
      const std::int64_t gained = result.after - total();
      result.after = total();
      if (gained <= result.after / kLeastGain) break;
    }
    return result;
  }

 private:
  using Share = std::pair<std::int32_t, std::int32_t>;  // micro-batch, share

  std::size_t width() const { return at(loads_.nodes) * at(loads_.layers); }
  std::int64_t sequences() const { return dump_.sequences.size(); }
  std::int64_t total() const { return std::accumulate(time_.begin(), time_.end(), std::int64_t{0}); }
  std::size_t bin_of(std::int64_t s) const {
    return at(packing_.micro_batch[at(s)] * groups_ + group_[at(s)]);
  }
  Share share_of(std::int64_t s) const { return {packing_.micro_batch[at(s)], packing_.share[at(s)]}; }

  void change(std::vector<std::int32_t>& bin, std::int64_t s, std::int32_t sign) const {
    const auto load = loads_.of(s);
    for (std::size_t i = 0; i < load.size(); ++i) bin[i] += sign * load[i];
  }

  /// Sequences by pool (those that may change places with each other), in it by length.
  void sort_into_pools() {
    const int step = packing_.micro_batches / dump_.header.optimizer_steps;
    const auto& rank = dump_.sequences.source_rank;
    std::vector<std::tuple<std::int32_t, std::int32_t, std::int64_t, std::int32_t>> keys;
    for (std::int32_t s = 0; s < sequences(); ++s)
      keys.push_back({packing_.micro_batch[at(s)] / step, rank.empty() ? 0 : rank[at(s)],
                      dump_.sequences.num_tokens[at(s)], s});
    std::sort(keys.begin(), keys.end());
    for (const auto& [in_step, on_rank, tokens, s] : keys) {
      order_.push_back(s);
      pool_.push_back({in_step, on_rank});
    }
  }

  /// `second` is longer and comes later in order_.
  bool alike(std::size_t first, std::size_t second) const {
    const auto& tokens = dump_.sequences.num_tokens;
    return second - first <= kNear && pool_[first] == pool_[second] &&
           (tokens[at(order_[second])] - tokens[at(order_[first])]) * kAlike <= tokens[at(order_[second])];
  }

  bool try_swap(std::int32_t a, std::int32_t b) {
    const std::size_t i = bin_of(a), j = bin_of(b);
    if (i == j) return false;
    std::int64_t &of_a = share_tokens_[share_of(a)], &of_b = share_tokens_[share_of(b)];
    const std::int64_t grows = dump_.sequences.num_tokens[at(b)] - dump_.sequences.num_tokens[at(a)];
    if (of_a + grows > limit_[at(packing_.micro_batch[at(a)])]) return false;  // grows >= 0
    const std::int64_t time_i = time_with(i, b, a), time_j = time_with(j, a, b);
    if (time_i + time_j >= time_[i] + time_[j]) return false;
    for (const auto& [bin, in, out] : {std::tuple{i, b, a}, std::tuple{j, a, b}}) {
      change(bins_[bin], in, +1);
      change(bins_[bin], out, -1);
    }
    time_[i] = time_i;
    time_[j] = time_j;
    of_a += grows;
    of_b -= grows;
    std::swap(packing_.micro_batch[at(a)], packing_.micro_batch[at(b)]);
    std::swap(packing_.share[at(a)], packing_.share[at(b)]);
    std::swap(group_[at(a)], group_[at(b)]);
    return true;
  }

  std::int64_t time_with(std::size_t bin, std::int32_t in, std::int32_t out) {
    return sum_of_most(bins_[bin].data(), loads_.of(in).data(), loads_.of(out).data(), loads_.nodes,
                       loads_.layers, most_.data());
  }

  const RoutingDump& dump_;
  const SequenceNodeLoads& loads_;
  const int groups_;
  Packing& packing_;
  std::span<std::int32_t> group_;
  std::vector<std::int32_t> most_;
  std::vector<std::vector<std::int32_t>> bins_;  // by micro-batch and group: (nodes, layers)
  std::vector<std::int64_t> time_;               // by bin: sum over layers of its most loaded node
  std::map<Share, std::int64_t> share_tokens_;
  std::vector<std::int64_t> limit_;  // by micro-batch: tokens of a share
  std::vector<std::int32_t> order_;
  std::vector<std::pair<std::int32_t, std::int32_t>> pool_;  // of each in order_
};

}  // namespace

RepackResult repack(const RoutingDump& dump, const SequenceNodeLoads& loads, int groups, Packing& packing,
                    std::span<std::int32_t> group) {
  return Repacker(dump, loads, groups, packing, group).run();
}

}  // namespace relibra
