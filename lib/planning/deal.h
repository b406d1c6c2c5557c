#pragma once
// Dealing lengths into bins: sequences into shares, shares onto nodes.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace relibra {

/// Items by descending length, lower index first among equals.
std::vector<std::int32_t> longest_first(std::span<const std::int64_t> lengths);

/// Largest first, each into the lightest bin (lowest number on a tie). (items) bin of each.
///
/// Example: lengths 5 4 3 3 3 in 2 bins: 5+3 and 4+3+3: bins 0 1 1 0 1.
std::vector<std::int32_t> deal_to_lightest(std::span<const std::int64_t> lengths, int bins);

/// Largest first, each into the fullest bin that stays within `limit`, else into a new one; an item longer
/// than `limit` is alone. (items) bin of each, numbered from 0; at most about 11/9 of the least number of
/// bins.
std::vector<std::int32_t> deal_best_fit(std::span<const std::int64_t> lengths, std::int64_t limit);

/// Bins of at most `limit` except for an item longer than it alone: the most even of deal_to_lightest and of
/// deal_best_fit at a lower limit (Coffman, Garey, Johnson 1978, MULTIFIT). Nothing where neither finds any.
std::optional<std::vector<std::int32_t>> deal_within(std::span<const std::int64_t> lengths, int bins,
                                                     std::int64_t limit);

/// The same number of items to every bin (bins divides the number of items), loads even: largest first, then
/// swaps of two items that bring two bins closer, for a few rounds.
///
/// Example: lengths 9 5 4 1 in 2 bins: 9+1 and 5+4.
std::vector<std::int32_t> deal_by_count(std::span<const std::int64_t> lengths, int bins);

}  // namespace relibra
