#pragma once
// The search of stage 1: simulated annealing on a smoothed maximum, then descent on the exact one.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/planning/bins.h"

namespace relibra {

/// Objective: sum over cells of the largest bin load (of a mean of 1), plus `price` for every item that is
/// not in its bin of `before` (-1: no such bin, never priced; empty: nothing is).
struct BinObjective {
  double price = 0;
  std::span<const std::int32_t> before = {};
};

double evaluate(const ItemLoads& loads, const Bins& bins, const BinObjective& objective);

/// Starts from `start` (items) bins and tries `moves` swaps of two items of different bins by simulated
/// annealing on the smoothed objective, sum over cells and bins of load^16, at a temperature that falls
/// geometrically; then makes every swap that lowers the objective itself, first found first. Few items:
/// several times, the best is kept. Returns (items) bins. Same result on every machine.
std::vector<std::int32_t> search_bins(const ItemLoads& loads, int bins, int capacity,
                                      const BinObjective& objective, std::span<const std::int32_t> start,
                                      std::int64_t moves, std::uint64_t seed);

}  // namespace relibra
