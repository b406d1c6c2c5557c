#pragma once
// Loads to reorder, and slow independent ways to judge a placement.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/model/counts.h"
#include "lib/model/topology.h"

namespace relibra {

std::vector<EpRankId> contiguous_homes(int experts, int ep_size);

/// Log-normal popularity of experts, varied by cell (log-normally by `noise`) and between steps of the same
/// seed.
LayerLoads random_loads(int micro_batches, int groups, int experts, std::uint64_t seed,
                        std::uint64_t step = 0, double noise = 0.5);

/// Sum over cells of most loaded domain / mean domain.
double domain_objective(const LayerLoads& loads, const Topology& topology, std::span<const EpRankId> home);

/// The least domain_objective over all placements, by enumeration.
double best_objective(const LayerLoads& loads, const Topology& topology);

/// domain_objective after `moves` tried swaps of late-acceptance hill climbing (Burke and Bykov 2017): a swap
/// is taken if it is no worse than the state some moves ago. From a random placement; the best state counts.
double late_acceptance(const LayerLoads& loads, const Topology& topology, std::int64_t moves,
                       std::uint64_t seed);

/// (ranks) loads over all cells.
std::vector<std::int64_t> rank_loads(const LayerLoads& loads, int ranks, std::span<const EpRankId> home);

int most_homes(int ranks, std::span<const EpRankId> home);
int count_moved(std::span<const EpRankId> before, std::span<const EpRankId> after);

}  // namespace relibra
