#pragma once
// Exact answers for small nodes, by methods that share nothing with the library: enumeration of rank sets,
// enumeration of copy sets, and an integer program.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/planning/replicate.h"

namespace relibra::exact {

/// Best slowest rank for given copies: max over all 2^ranks - 1 sets of ceil(load that lives wholly inside
/// the set / its size). `holders[e]`: ranks that hold expert e, home first.
std::int64_t best_split(const DomainLoad& domain, std::span<const std::vector<std::int32_t>> holders);

/// holders[e] of a plan's copies.
std::vector<std::vector<std::int32_t>> holders_of(const DomainLoad& domain, std::span<const Quota> copies);

/// Best slowest rank over all sets of copies, by enumeration: a handful of experts only.
std::int64_t best_by_enumeration(const DomainLoad& domain, int slots, int max_fan_out);

/// An answer of the integer program.
struct Program {
  bool proven = false;                ///< false: stopped by the time limit, `value` is a lower bound
  std::optional<std::int64_t> value;  ///< none: nothing fulfils the limits
};

/// Least slowest rank in [bound, below - 1], where there is one.
Program best_below(const DomainLoad& domain, const ReplicateOptions& options, std::int64_t bound,
                   std::int64_t below, double seconds);

/// Fewest copies with no rank above `limit`.
Program fewest_copies(const DomainLoad& domain, const ReplicateOptions& options, std::int64_t limit,
                      double seconds);

}  // namespace relibra::exact
