#include "lib/planning/deal.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

namespace relibra {
namespace {

using Load = std::pair<std::int64_t, std::int32_t>;  // tokens, bin

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

int bins_used(std::span<const std::int32_t> bin_of) {
  return bin_of.empty() ? 0 : 1 + *std::max_element(bin_of.begin(), bin_of.end());
}

/// Whether every bin is within `limit` or holds one item of any length.
bool within(std::span<const std::int64_t> lengths, std::span<const std::int32_t> bin_of, int bins,
            std::int64_t limit) {
  std::vector<std::int64_t> load(at(bins)), longest(at(bins));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    load[at(bin_of[i])] += lengths[i];
    longest[at(bin_of[i])] = std::max(longest[at(bin_of[i])], lengths[i]);
  }
  for (std::size_t b = 0; b < load.size(); ++b)
    if (load[b] > std::max(limit, longest[b])) return false;
  return true;
}

/// One round of swaps between all pairs of bins; true if any was made. A swap of lengths x and y between
/// loads p > q brings them closer where 0 < x - y < p - q.
bool even_out(std::span<const std::int64_t> lengths, std::vector<std::vector<std::int32_t>>& members,
              std::vector<std::int64_t>& load) {
  bool any = false;
  for (std::size_t p = 0; p < members.size(); ++p)
    for (std::size_t q = 0; q < members.size(); ++q)
      for (auto& i : members[p])
        for (auto& j : members[q]) {
          const std::int64_t change = lengths[at(i)] - lengths[at(j)];
          if (change <= 0 || change >= load[p] - load[q]) continue;
          std::swap(i, j);
          load[p] -= change;
          load[q] += change;
          any = true;
        }
  return any;
}

}  // namespace

std::vector<std::int32_t> longest_first(std::span<const std::int64_t> lengths) {
  std::vector<std::int32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return lengths[at(a)] > lengths[at(b)]; });
  return order;
}

std::vector<std::int32_t> deal_to_lightest(std::span<const std::int64_t> lengths, int bins) {
  std::vector<Load> start;
  for (std::int32_t b = 0; b < bins; ++b) start.push_back({0, b});
  std::priority_queue<Load, std::vector<Load>, std::greater<>> lightest(std::greater<>{}, std::move(start));
  std::vector<std::int32_t> bin_of(lengths.size());
  for (std::int32_t i : longest_first(lengths)) {
    const auto [load, bin] = lightest.top();
    lightest.pop();
    lightest.push({load + lengths[at(i)], bin});
    bin_of[at(i)] = bin;
  }
  return bin_of;
}

std::vector<std::int32_t> deal_best_fit(std::span<const std::int64_t> lengths, std::int64_t limit) {
  std::set<Load> room;  // left in each bin opened
  std::vector<std::int32_t> bin_of(lengths.size());
  std::int32_t opened = 0;
  for (std::int32_t i : longest_first(lengths)) {
    const std::int64_t length = lengths[at(i)];
    const auto fits = room.lower_bound({length, 0});
    const Load bin = fits == room.end() ? Load{std::max(limit, length), opened++} : *fits;
    if (fits != room.end()) room.erase(fits);
    bin_of[at(i)] = bin.second;
    room.insert({bin.first - length, bin.second});
  }
  return bin_of;
}

std::optional<std::vector<std::int32_t>> deal_within(std::span<const std::int64_t> lengths, int bins,
                                                     std::int64_t limit) {
  auto best = deal_to_lightest(lengths, bins);
  if (within(lengths, best, bins, limit)) return best;
  best = deal_best_fit(lengths, limit);
  if (bins_used(best) > bins) return std::nullopt;
  const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  std::int64_t low = total / bins - 1, high = limit;  // too low, good enough
  for (int halving = 0; halving < 10 && high - low > 1; ++halving) {
    const std::int64_t middle = low + (high - low) / 2;
    auto bin_of = deal_best_fit(lengths, middle);
    if (bins_used(bin_of) > bins) {
      low = middle;
    } else {
      high = middle;
      best = std::move(bin_of);
    }
  }
  return best;
}

std::vector<std::int32_t> deal_by_count(std::span<const std::int64_t> lengths, int bins) {
  constexpr int kRounds = 4;
  const std::size_t capacity = lengths.size() / at(bins);
  std::vector<std::int64_t> load(at(bins));
  std::vector<std::vector<std::int32_t>> members(at(bins));
  for (std::int32_t i : longest_first(lengths)) {
    std::size_t best = load.size();
    for (std::size_t b = 0; b < load.size(); ++b)
      if (members[b].size() < capacity && (best == load.size() || load[b] < load[best])) best = b;
    members[best].push_back(i);
    load[best] += lengths[at(i)];
  }
  for (int round = 0; round < kRounds && even_out(lengths, members, load); ++round) continue;
  std::vector<std::int32_t> bin_of(lengths.size());
  for (std::size_t b = 0; b < members.size(); ++b)
    for (std::int32_t i : members[b]) bin_of[at(i)] = static_cast<std::int32_t>(b);
  return bin_of;
}

}  // namespace relibra
