#pragma once
// The search of stage 1: simulated annealing on a smoothed maximum, then descent on the exact one.
#include <cstdint>
#include <span>

#include "lib/planning/bins.h"

namespace relibra {

/// Objective: sum over cells of the largest bin load (of a mean of 1), plus `price` for every item that is
/// not in its bin of `before` (-1: no such bin, never priced; empty: nothing is).
struct BinObjective {
  double price = 0;
  std::span<const std::int32_t> before = {};
};

double evaluate(const ItemLoads& loads, const Bins& bins, const BinObjective& objective);

/// `moves` swaps of two items of different bins are tried on the smoothed objective, sum over cells and bins
/// of load^16, at a temperature that falls geometrically. Same result on every machine.
void anneal(const ItemLoads& loads, Bins& bins, const BinObjective& objective, std::int64_t moves,
            std::uint64_t seed);

/// Swaps that lower the objective, first found first, until there is none.
void descend(const ItemLoads& loads, Bins& bins, const BinObjective& objective);

}  // namespace relibra
