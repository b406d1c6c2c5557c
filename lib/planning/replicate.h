#pragma once
// Stage 2, expert replication: copies of hot experts in spare slots of ranks of one domain (the ranks of an
// EP group that share a node), and how many assignments each holder of an expert computes.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/ids.h"

namespace relibra {

/// The load of one domain in one cell. Ranks are local to the domain, 0..ranks-1; experts are those whose
/// home is in it, numbered by the caller.
struct DomainLoad {
  int ranks = 0;
  std::span<const std::int32_t> home;  ///< (experts) rank in the domain
  std::span<const std::int64_t> load;  ///< (experts) assignments
};

struct ReplicateOptions {
  int slots = 2;            ///< V
  double tolerance = 0.01;  ///< accept a slowest rank this share above the best reachable, to save copies
  int max_fan_out = 0;      ///< copies of one home's experts; 0: no limit
  std::int64_t enough = 0;  ///< a slowest rank that is good enough, since another domain has it too; 0: none
};

/// `tokens` assignments of `expert` are computed by `rank`, which is not its home.
struct Quota {
  std::int32_t expert = 0;
  std::int32_t rank = 0;
  std::int64_t tokens = 0;
};

struct DomainPlan {
  std::int64_t max_load = 0;  ///< of the slowest rank
  std::int64_t bound = 0;     ///< no copies within the slots reach less (replica_bound)
  std::vector<Quota> quotas;  ///< one a copy, sorted by (expert, rank); the home keeps the rest
};

/// No copies reach a slowest rank below this: the largest of
/// * the mean, ceil(load / ranks);
/// * the least T such that the sum over ranks of min(T, own load + V largest foreign experts) covers the
/// load;
/// * for the k most loaded ranks, k = 1 ..: the others have (ranks - k) * V slots, so that what they can take
///   is at most that many largest experts, and the mean of the rest stays.
///
/// Example: loads 1 x 12 | none | none and one slot: the mean is 4, but the two idle ranks can take one
/// expert each, and 10 stay on the first.
std::int64_t replica_bound(const DomainLoad& domain, int slots);

/// Local, pure.
DomainPlan replicate(const DomainLoad& domain, const ReplicateOptions& options);

/// The best slowest rank for given copies, exact: max over sets of ranks of ceil(load that lives wholly
/// inside the set / its size), by a flow or subset sums. `holders[e]` are the ranks that hold expert e, home
/// first.
std::int64_t best_split_bound(const DomainLoad& domain, std::span<const std::vector<std::int32_t>> holders);

/// Quotas that reach best_split_bound for given copies, in the order of `copies` (expert, rank).
std::vector<Quota> split_given_copies(const DomainLoad& domain, std::span<const Quota> copies);

}  // namespace relibra
