#pragma once
// Cutting ranges of rows into blocks, for the readers of routing.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/model/routing.h"

namespace relibra {

/// The ranges in pieces of at most `most` (>= 1) items each, in the same order; empty ranges vanish and a
/// piece never spans two ranges.
/// Example: cut({[0,5) [5,5) [8,10)}, 3) = [0,3) [3,5) [8,10).
inline std::vector<Range> cut(std::span<const Range> ranges, std::int64_t most) {
  std::vector<Range> pieces;
  for (const Range& range : ranges)
    for (std::int64_t at = range.first; at < range.last; at += most)
      pieces.push_back({at, std::min(at + most, range.last)});
  return pieces;
}

/// Rows of L*K ids of `id_bytes` each that fit into `block_bytes`, at least one.
inline std::int64_t rows_per_block(const RoutingHeader& header, std::size_t id_bytes,
                                   std::size_t block_bytes) {
  const auto row = static_cast<std::size_t>(header.num_layers()) * static_cast<std::size_t>(header.top_k);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(block_bytes / (row * id_bytes)));
}

}  // namespace relibra
