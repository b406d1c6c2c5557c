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
  bool copies = true;    ///< stage 2 will even out the ranks of a domain; else their loads count as they are
};

struct ReorderResult {
  std::vector<EpRankId> home;  ///< (E), at most ceil(E/P) a rank
  std::int64_t moves = 0;      ///< search moves made
};

/// What a placement costs in a step, in assignments of the slowest rank:
///
///   sum over (micro-batch, group) of max over domains (load of the domain / its ranks)  [with copies]
///   sum over (micro-batch, group) of max over ranks (load of the rank)                  [without]
///     + move_cost / P * (experts whose home is not their previous one): ranks send and receive at once
///
/// Example: P = 4, G = 2, one cell with loads 8 2 | 1 3 of experts 0..3 on ranks 0..3: domains carry 10 and
/// 4, so 5 with copies and 8 without; swapping experts 0 and 3 leaves 5 and 9: 4.5 + 2 * move_cost / 4, which
/// pays where a move costs less than 1.
double reorder_cost(const LayerLoads& loads, const Topology& topology, std::span<const EpRankId> previous,
                    std::span<const EpRankId> home, const ReorderOptions& options);

/// Homes for the experts of one layer. Local, pure: the same on every machine. `previous` (E) is where
/// experts are now, or contiguous blocks where there was no plan.
///
/// The search lowers the first sum above with every cell divided by its mean, so that small micro-batches
/// count like large ones: longest-processing-time on totals, `moves` moves of annealing
/// (lib/planning/anneal.h), then descent; last, the experts of each domain go to its ranks. Where moves are
/// free, domains and ranks are numbered so that experts tend to stay. Where they cost, the search starts from
/// `previous` and the result is never worse by reorder_cost than staying (unless a rank holds more than
/// ceil(E/P) experts now).
ReorderResult reorder_experts(const LayerLoads& loads, const Topology& topology,
                              std::span<const EpRankId> previous, const ReorderOptions& options);

}  // namespace relibra
