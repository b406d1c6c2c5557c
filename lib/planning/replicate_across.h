#pragma once
// Copies that may leave the node, where the wait that they save exceeds what their weights cost on the way.
#include <cstdint>
#include <span>

#include "lib/planning/replicate.h"

namespace relibra {

struct AcrossOptions {
  ReplicateOptions copies;  ///< slots, tolerance and fan-out as inside nodes
  int node_ranks = 1;       ///< consecutive ranks of the group that share a node
  double push_price = 0;    ///< of a copy on another node, in assignments of the slowest rank
  double push_shadow = 0;   ///< what of that other work hides, over the mean assignments of a rank
  double far_price = 0;     ///< of an assignment on another node than its token's, shared by the ranks
  std::int64_t quota_floor = 1024;  ///< QuotaOptions::floor
};

/// What a cell costs: the slowest rank, and the price of every copy that the busiest rank sends to other
/// nodes or gets from them, whichever is more, as far as it is not hidden.
///
/// Example: nodes of 2 ranks, slowest rank 120, mean 47.5; rank 0 sends copies to ranks 1, 2 and 3, rank 2
/// one to rank 0; price 5: 120 + 2 * 5 = 130; with a shadow of 0.1 it is 130 - 0.1 * 47.5 = 125.25.
///
/// `far_price` is added for every assignment that leaves its token's node, over the ranks of the group.
/// Sources are taken to be spread evenly over the N nodes: of an expert with load l, a node that computes t
/// keeps min(t, l / N) of its own tokens. With 40 at home and 10 on each of three other nodes, l = 70: 17.5 +
/// 3 * 10 stay, and 22.5 leave.
double cost_across(const DomainLoad& group, std::int64_t max_load, std::span<const Quota> quotas,
                   const AcrossOptions& options);

/// The copies of one EP group in one cell with the least such cost that is found: those given, which lie
/// inside nodes; those and, one after the other, copies of the slowest rank's largest expert on the least
/// loaded rank of another node; or copies chosen without regard to nodes: by replicate(), as many of a home
/// as are hidden or without limit, or by plan_quotas(). Never costs more than the first. `in_nodes` is sorted
/// by (expert, rank), ranks count in the group. `bound` of the result is the mean, rounded up. Local, pure.
DomainPlan replicate_across(const DomainLoad& group, std::span<const Quota> in_nodes,
                            const AcrossOptions& options);

}  // namespace relibra
