#pragma once
// UltraEP's quota planner: homes stay, and the excess of ranks above a target is sent to copies, with the
// target searched for.
#include <cstdint>

#include "lib/planning/replicate.h"

namespace relibra {

struct QuotaOptions {
  int slots = 2;              ///< V
  std::int64_t floor = 1024;  ///< fewest tokens of a copy, in the second form
};

/// Copies and quotas of one domain in one cell.
///
/// A target T is tried by a greedy build: ranks from the most loaded down, of each the experts from the
/// heaviest down, send what lies above T to the rank with most room below T that has a free slot, as much as
/// the need, the room and the expert (whose home keeps a token) allow; a transfer under a floor is not made.
/// The floor is the need over the ranks that could take some (first form), or fixed (second form).
///
/// T starts at 1.01 times the mean, rounded up, with the first form, and rises three times by a hundredth of
/// what the most loaded rank is above the mean; then the second form is tried at the mean, and in a bisection
/// from there to the most loaded rank. Where the first try succeeds, that is the answer; otherwise the best
/// slowest rank of all builds, since neither form is monotone in T.
///
/// `bound` of the result is the mean, rounded up. Local, pure.
/// Source: UltraEP, arXiv 2606.04101.
///
/// Example: loads 80 20 | 10 10 | 30 10 | 5 35, one slot: T = 51; expert 0 sends 31 to rank 1, 11 to rank 2,
/// 7 to rank 3, and ranks end at 51 51 51 47.
DomainPlan plan_quotas(const DomainLoad& domain, const QuotaOptions& options);

}  // namespace relibra
