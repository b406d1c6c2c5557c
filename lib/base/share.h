#pragma once
// Cutting a range of items into contiguous, nearly equal shares.
#include <cstdint>

namespace relibra {

/// Half-open range [first, last) of 64-bit indices.
struct Range {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t size() const { return last - first; }
  bool empty() const { return last <= first; }
  bool contains(std::int64_t i) const { return i >= first && i < last; }
  bool operator==(const Range&) const = default;
};

/// Share `part` of `parts` of [0, total): sizes differ by at most one, larger shares first.
/// Example: share_of(10, 0..2, 3) = [0,4) [4,7) [7,10).
constexpr Range share_of(std::int64_t total, int part, int parts) {
  const std::int64_t base = total / parts, extra = total % parts;
  const std::int64_t first = part * base + (part < extra ? part : extra);
  return {first, first + base + (part < extra ? 1 : 0)};
}

/// The part whose share holds `item`; the inverse of share_of.
constexpr int owner_of(std::int64_t item, std::int64_t total, int parts) {
  const std::int64_t base = total / parts, extra = total % parts, large = extra * (base + 1);
  return static_cast<int>(item < large ? item / (base + 1) : extra + (item - large) / base);
}

}  // namespace relibra
