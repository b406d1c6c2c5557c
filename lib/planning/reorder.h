#pragma once
// Stage 1, expert reordering: homes of one layer's experts such that nodes are evenly loaded in every
// micro-batch.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/model/counts.h"
#include "lib/model/topology.h"

namespace relibra {

struct ReorderOptions {
  std::int64_t moves = 100'000;  ///< search moves
  std::uint64_t seed = 0;        ///< of this layer
  double move_cost = 0;  ///< price of one moved expert in assignments of the slowest rank; 0: moves are free
};

struct ReorderResult {
  std::vector<EpRankId> home;  ///< (E), at most ceil(E/P) a rank
  std::int64_t moves = 0;      ///< search moves made
};

/// Local, pure. `previous` (E) is where experts are now.
ReorderResult reorder_experts(const LayerLoads& loads, const Topology& topology,
                              std::span<const EpRankId> previous, const ReorderOptions& options);

}  // namespace relibra
