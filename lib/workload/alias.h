#pragma once
// Walker's alias tables (Vose's construction): an index by weight in constant time.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/workload/terms.h"

namespace relibra::workload {

/// A table for each token type, side by side, for draws from 32 random bits. An entry holds a threshold in
/// its upper bits and the alias in the lower `index_bits`.
///
/// Example: weights 1 3 (of 4), index_bits 1: column 0 keeps half of its draws, the rest goes to 1; column 1
/// keeps all.
class AliasTables {
 public:
  /// `size` from 1 to 2^16.
  explicit AliasTables(int size)
      : size_(static_cast<std::uint32_t>(size)),
        index_bits_(std::max(1, static_cast<int>(std::bit_width(size_ - 1)))),
        entries_(static_cast<std::size_t>(size) * kTypes) {}

  void clear() { built_.fill(false); }
  bool built(int type) const { return built_[static_cast<std::size_t>(type)]; }
  /// (size) weights, none negative, not all 0.
  void build(int type, std::span<const double> weights);

  std::uint32_t draw(int type, std::uint32_t bits) const {
    const std::uint32_t at = (bits >> index_bits_) * size_;  // column and fraction, fixed point
    const std::uint32_t column = at >> (32 - index_bits_);
    const std::uint32_t entry = entries_[static_cast<std::size_t>(type) * size_ + column];
    const std::uint32_t alias_mask = (std::uint32_t{1} << index_bits_) - 1;
    const bool keep = at << index_bits_ < (entry & ~alias_mask);
    return keep ? column : entry & alias_mask;
  }

  const std::uint32_t* entries() const { return entries_.data(); }  ///< (types, size)
  int size() const { return static_cast<int>(size_); }
  int index_bits() const { return index_bits_; }

 private:
  std::uint32_t size_;
  int index_bits_;
  std::vector<std::uint32_t> entries_;
  std::array<bool, kTypes> built_{};
  std::vector<double> scaled_;
  std::vector<std::uint32_t> stack_;  ///< (size) light ones from the left, heavy ones from the right
};

}  // namespace relibra::workload
