#pragma once
// Dealing lengths into bins: sequences to shares of ranks, shares to nodes.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace relibra {

/// Items by descending length, lower index first among equals.
std::vector<std::int32_t> longest_first(std::span<const std::int64_t> lengths);

/// Largest first, each into the lightest bin (lowest number on a tie). (items) bin of each; nothing where an
/// item would take a bin over `limit` that holds another one already. `limit` < 0: none.
///
/// Example: lengths 5 4 3 3 3 in 2 bins: 5+3 and 4+3+3: bins 0 1 1 0 1.
std::optional<std::vector<std::int32_t>> deal_to_lightest(std::span<const std::int64_t> lengths, int bins,
                                                          std::int64_t limit = -1);

/// Best fit, largest first: each item into the fullest bin of those opened that stays within `limit`, else
/// into a new one. (items) bin of each; at most about 11/9 of the least number of bins. An item longer than
/// `limit` is alone.
std::vector<std::int32_t> deal_best_fit(std::span<const std::int64_t> lengths, std::int64_t limit);

/// Items into bins that take exactly `capacity[b]` of them (capacities sum to the number of items), loads in
/// proportion to capacity: largest first, then swaps of two items while that brings two bins closer.
std::vector<std::int32_t> deal_by_count(std::span<const std::int64_t> lengths,
                                        std::span<const std::int32_t> capacity);

}  // namespace relibra
