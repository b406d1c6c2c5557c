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

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

std::vector<std::int32_t> longest_first(std::span<const std::int64_t> lengths) {
  std::vector<std::int32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return lengths[at(a)] > lengths[at(b)]; });
  return order;
}

std::optional<std::vector<std::int32_t>> deal_to_lightest(std::span<const std::int64_t> lengths, int bins,
                                                          std::int64_t limit) {
  std::vector<Load> start;
  for (std::int32_t b = 0; b < bins; ++b) start.push_back({0, b});
  std::priority_queue<Load, std::vector<Load>, std::greater<>> lightest(std::greater<>{}, std::move(start));
  std::vector<std::int32_t> bin_of(lengths.size());
  for (std::int32_t i : longest_first(lengths)) {
    const auto [load, bin] = lightest.top();
    const std::int64_t after = load + lengths[at(i)];
    if (limit >= 0 && load > 0 && lengths[at(i)] > 0 && after > limit) return std::nullopt;
    lightest.pop();
    lightest.push({after, bin});
    bin_of[at(i)] = bin;
  }
  return bin_of;
}

std::vector<std::int32_t> deal_best_fit(std::span<const std::int64_t> lengths, std::int64_t limit) {
  std::set<Load> room;  // of opened bins
  std::vector<std::int32_t> bin_of(lengths.size());
  std::int32_t opened = 0;
  for (std::int32_t i : longest_first(lengths)) {
    const std::int64_t length = lengths[at(i)];
    auto fits = room.lower_bound({length, 0});
    Load bin = fits == room.end() ? Load{std::max<std::int64_t>(limit, length), opened++} : *fits;
    if (fits != room.end()) room.erase(fits);
    bin_of[at(i)] = bin.second;
    room.insert({bin.first - length, bin.second});
  }
  return bin_of;
}

std::vector<std::int32_t> deal_by_count(std::span<const std::int64_t> lengths,
                                        std::span<const std::int32_t> capacity) {
  std::vector<std::int64_t> load(capacity.size());
  std::vector<std::int32_t> filled(capacity.size()), bin_of(lengths.size());
  for (std::int32_t i : longest_first(lengths)) {
    std::size_t best = capacity.size();
    // Lowest load a slot, compared as load_b * capacity_best < load_best * capacity_b.
    for (std::size_t b = 0; b < capacity.size(); ++b)
      if (filled[b] < capacity[b] &&
          (best == capacity.size() || load[b] * capacity[best] < load[best] * capacity[b]))
        best = b;
    bin_of[at(i)] = static_cast<std::int32_t>(best);
    load[best] += lengths[at(i)];
    ++filled[best];
  }
  return bin_of;
}

}  // namespace relibra
