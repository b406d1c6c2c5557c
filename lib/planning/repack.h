#pragma once
// Repacking: once experts have homes, sequences of like length change places between micro-batches so that
// the nodes are more evenly loaded in each. Which sequences share a micro-batch changes, the step does not.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/model/routing.h"
#include "lib/planning/pack.h"

namespace relibra {

/// Assignments of every sequence by node of its EP group and layer: (S, N, L) i32, row-major, where N is
/// Topology::domains_per_group().
struct SequenceNodeLoads {
  int nodes = 0, layers = 0;
  std::vector<std::int32_t> data;

  std::span<const std::int32_t> of(std::int64_t sequence) const {
    const auto width = static_cast<std::size_t>(nodes) * static_cast<std::size_t>(layers);
    return {data.data() + static_cast<std::size_t>(sequence) * width, width};
  }
};

struct RepackResult {
  std::int64_t swaps = 0;
  /// Sum over (micro-batch, EP group, layer) of the most loaded node, in assignments.
  std::int64_t before = 0, after = 0;
};

/// Swaps the places (micro-batch, share, EP group) of two sequences while that lowers RepackResult::after.
/// Both are of one optimizer step, and of one source rank where the dump fixes it, and of nearly the same
/// length; no share grows over the largest that its micro-batch had. `packing` and `group` (S) are changed.
/// Local and deterministic.
///
/// Example: 2 nodes, 1 layer, one rank's sequences of 4 tokens with node loads 4 0 | 3 1 in micro-batch 0 and
/// 0 4 | 1 3 in micro-batch 1: the fuller node has 7 in both. With the first and the last in each other's
/// place both nodes have 4 in both: before = 14, after = 8.
RepackResult repack(const RoutingDump& dump, const SequenceNodeLoads& loads, int groups, Packing& packing,
                    std::span<std::int32_t> group);

}  // namespace relibra
