#pragma once
// DeepSeek's expert-parallel load balancer (EPLB): copies and places for the experts of one layer from one
// load each, in two greedy steps.
#include <cstdint>
#include <span>
#include <vector>

namespace relibra {

struct EplbShape {
  int slots = 0;   ///< physical slots in all, at least the number of experts
  int groups = 1;  ///< consecutive runs of experts that stay on one node where the groups divide by nodes
  int nodes = 1;   ///< divides `ranks`
  int ranks = 0;
};

/// Whether the groups are packed onto nodes first; else copies go anywhere.
constexpr bool is_hierarchical(const EplbShape& shape) {
  return shape.groups % shape.nodes == 0;
}

/// Which bin each item is in, and as which of the bin's items.
struct EvenPacks {
  std::vector<std::int32_t> bin, place;
};

/// At most ceil(items / bins) items a bin: heaviest first (lower index on a tie), each into the lightest bin
/// that is not full (lowest index on a tie). With one item a bin, item i is in bin i. Sums are float32.
///
/// Example: 3 9 4 6 into two bins: 9 | 6, then 4 to the bin of 6, then 3: bin = 0 0 1 1, place = 1 0 1 0.
EvenPacks pack_evenly(std::span<const float> weight, int bins);

/// Experts in physical slots, (ranks, ceil(slots / ranks)) row-major, -1 where a slot is empty. An expert may
/// stand twice on a rank; its tokens are meant to be dealt evenly over its slots.
///
/// Hierarchical: groups are packed onto nodes by their sums; in each node a slot at a time goes to the expert
/// with the largest load over copies (lowest index on a tie) until its share of the slots is used; the slots,
/// each with its share of load, are packed onto the node's ranks. Otherwise the same with one group, one
/// node.
///
/// `load` (experts), a multiple of `groups`; copies come in whole slots a node. Local, pure.
/// Source: the published description of EPLB; its README's example is in the tests.
std::vector<std::int32_t> eplb(std::span<const float> load, const EplbShape& shape);

}  // namespace relibra
