#pragma once
// Search for the least value that does.
#include <cstdint>

namespace relibra {

/// Smallest T in [low, high] that `reaches`, which holds at high and is monotone, or nearly so.
template <class Reaches>
std::int64_t bisect(std::int64_t low, std::int64_t high, Reaches reaches) {
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (reaches(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace relibra
