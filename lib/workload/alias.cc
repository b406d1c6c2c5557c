#include "lib/workload/alias.h"

#include <algorithm>
#include <numeric>

namespace relibra::workload {

void AliasTables::build(int type, std::span<const double> weights) {
  std::uint32_t* entries = entries_.data() + static_cast<std::size_t>(type) * size_;
  const double scale = size_ / std::accumulate(weights.begin(), weights.end(), 0.0);
  const double unit = static_cast<double>(std::uint64_t{1} << (32 - index_bits_));
  scaled_.resize(size_);
  stack_.resize(size_);
  std::uint32_t light = 0, heavy = size_;  // stack_[0, light) are below 1, stack_[heavy, size) not
  for (std::uint32_t i = 0; i < size_; ++i) {
    scaled_[i] = weights[i] * scale;
    const bool is_light = scaled_[i] < 1;
    stack_[is_light ? light : heavy - 1] = i;
    light += is_light ? 1 : 0;
    heavy -= is_light ? 0 : 1;
  }
  while (light > 0 && heavy < size_) {
    const std::uint32_t low = stack_[--light], high = stack_[heavy];
    entries[low] = static_cast<std::uint32_t>(scaled_[low] * unit) << index_bits_ | high;
    scaled_[high] -= 1 - scaled_[low];
    if (scaled_[high] >= 1) continue;
    ++heavy;
    stack_[light++] = high;
  }
  const auto keep_all = ~((std::uint32_t{1} << index_bits_) - 1);  // what is left weighs 1 up to rounding
  for (std::uint32_t i = 0; i < light; ++i) entries[stack_[i]] = keep_all | stack_[i];
  for (std::uint32_t i = heavy; i < size_; ++i) entries[stack_[i]] = keep_all | stack_[i];
  built_[static_cast<std::size_t>(type)] = true;
}

}  // namespace relibra::workload
