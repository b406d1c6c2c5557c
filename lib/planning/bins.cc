#include "lib/planning/bins.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <numeric>

namespace relibra {

ItemLoads::ItemLoads(const LayerLoads& loads, std::span<const std::int32_t> experts, int bins)
    : items_(static_cast<int>(experts.size())) {
  const auto width = static_cast<std::size_t>(loads.experts);
  const std::size_t all_cells = width == 0 ? 0 : loads.data.size() / width;
  std::vector<std::pair<std::size_t, std::int64_t>> used;  // row of `loads`, its total over the items
  for (std::size_t c = 0; c < all_cells; ++c) {
    std::int64_t total = 0;
    for (std::int32_t e : experts) total += loads.data[c * width + static_cast<std::size_t>(e)];
    if (total > 0) used.push_back({c, total});
  }
  cells_ = static_cast<int>(used.size());
  vectors_ = (cells_ + Lanes::kCount - 1) / Lanes::kCount;
  rows_.resize(static_cast<std::size_t>(items_ + 1) * this->width());
  // Values of a cell sum to `bins`: 2^22 steps or fewer, and rounding adds half a step an item: below 2^24.
  const double steps = std::ldexp(1.0, 22 - std::bit_width(static_cast<unsigned>(bins - 1)));
  for (std::size_t k = 0; k < used.size(); ++k) {
    const double scale = steps * bins / static_cast<double>(used[k].second);
    for (int i = 0; i < items_; ++i) {
      const auto load = static_cast<double>(
          loads.data[used[k].first * width + static_cast<std::size_t>(experts[static_cast<std::size_t>(i)])]);
      rows_[static_cast<std::size_t>(i) * this->width() + k / Lanes::kCount].value[k % Lanes::kCount] =
          static_cast<float>(std::floor(load * scale + 0.5) / steps);
    }
  }
}

double ItemLoads::total(int item) const {
  double sum = 0;
  for (int v = 0; v < vectors_; ++v)
    for (float x : row(item)[v].value) sum += x;
  return sum;
}

Bins::Bins(const ItemLoads& loads, int bins, int capacity)
    : items_(loads.items()),
      bins_(bins),
      capacity_(capacity),
      vectors_(loads.vectors()),
      slot_item_(static_cast<std::size_t>(bins * capacity)),
      slot_of_(slot_item_.size()),
      bin_of_(slot_item_.size()),
      load_(static_cast<std::size_t>(bins + 2) * width()),
      row_of_(static_cast<std::size_t>(bins)),
      trial_{bins, bins + 1} {
  std::iota(row_of_.begin(), row_of_.end(), 0);
}

std::vector<std::int32_t> Bins::bin_of_item() const {
  return {bin_of_.begin(), bin_of_.begin() + items_};
}

void Bins::assign(const ItemLoads& loads, std::span<const std::int32_t> bin_of) {
  std::fill(slot_item_.begin(), slot_item_.end(), -1);
  std::fill(load_.begin(), load_.end(), Lanes{});
  std::vector<std::int32_t> filled(static_cast<std::size_t>(bins_));
  for (int i = 0; i < items_; ++i) {
    const int bin = bin_of[static_cast<std::size_t>(i)];
    auto& next = filled[static_cast<std::size_t>(bin)];
    assert(next < capacity_);
    slot_item_[static_cast<std::size_t>(bin * capacity_ + next++)] = i;
    Lanes* sum = load_.data() + static_cast<std::size_t>(row_of_[static_cast<std::size_t>(bin)]) * width();
    for (int v = 0; v < vectors_; ++v)
      for (int k = 0; k < Lanes::kCount; ++k) sum[v].value[k] += loads.row(i)[v].value[k];
  }
  std::int32_t dummy = items_;
  for (std::size_t s = 0; s < slot_item_.size(); ++s) {
    if (slot_item_[s] < 0) slot_item_[s] = dummy++;
    slot_of_[static_cast<std::size_t>(slot_item_[s])] = static_cast<std::uint32_t>(s);
    bin_of_[static_cast<std::size_t>(slot_item_[s])] = static_cast<std::int32_t>(s) / capacity_;
  }
}

std::vector<std::int32_t> largest_first(const ItemLoads& loads, int bins, int capacity,
                                        std::span<const std::int32_t> fixed) {
  std::vector<double> total(static_cast<std::size_t>(loads.items())), sum(static_cast<std::size_t>(bins));
  std::vector<int> filled(sum.size());
  std::vector<std::int32_t> bin_of(total.size(), -1), order;
  const auto put = [&](std::int32_t i, std::size_t bin) {
    bin_of[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(bin);
    sum[bin] += total[static_cast<std::size_t>(i)];
    ++filled[bin];
  };
  for (std::int32_t i = 0; i < loads.items(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    total[k] = loads.total(i);
    if (k < fixed.size() && fixed[k] >= 0 && filled[static_cast<std::size_t>(fixed[k])] < capacity)
      put(i, static_cast<std::size_t>(fixed[k]));
    else
      order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return total[static_cast<std::size_t>(a)] > total[static_cast<std::size_t>(b)];
  });
  for (std::int32_t i : order) {
    std::size_t best = sum.size();
    for (std::size_t b = 0; b < sum.size(); ++b)
      if (filled[b] < capacity && (best == sum.size() || sum[b] < sum[best])) best = b;
    put(i, best);
  }
  return bin_of;
}

void match_bins(std::span<std::int32_t> bin_of, std::span<const std::int32_t> before, int bins) {
  struct Overlap {
    int shared;
    std::int32_t bin, target;
  };
  const auto n = static_cast<std::size_t>(bins);
  std::vector<int> shared(n * n);
  for (std::size_t i = 0; i < bin_of.size(); ++i)
    if (before[i] >= 0)
      ++shared[static_cast<std::size_t>(bin_of[i]) * n + static_cast<std::size_t>(before[i])];
  std::vector<Overlap> pairs;
  for (std::int32_t b = 0; b < bins; ++b)
    for (std::int32_t t = 0; t < bins; ++t)
      pairs.push_back({shared[static_cast<std::size_t>(b) * n + static_cast<std::size_t>(t)], b, t});
  std::stable_sort(pairs.begin(), pairs.end(), [](const Overlap& a, const Overlap& b) {
    return a.shared != b.shared ? a.shared > b.shared : (a.bin == a.target) > (b.bin == b.target);
  });
  std::vector<std::int32_t> target(n, -1);
  std::vector<bool> taken(n);
  for (const Overlap& p : pairs)
    if (target[static_cast<std::size_t>(p.bin)] < 0 && !taken[static_cast<std::size_t>(p.target)]) {
      target[static_cast<std::size_t>(p.bin)] = p.target;
      taken[static_cast<std::size_t>(p.target)] = true;
    }
  for (auto& b : bin_of) b = target[static_cast<std::size_t>(b)];
}

}  // namespace relibra
