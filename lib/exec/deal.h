#pragma once
// Assignments dealt to holders: where each token of a source goes in one cell.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/exec/holders.h"
#include "lib/exec/routes.h"

namespace relibra::exec {

/// Per (token, k) of a source's CellRoutes: the rank that computes the assignment and the slot there that
/// holds the expert; invalid and -1 where no route was recorded.
struct Dealt {
  std::vector<RankId> rank;
  std::vector<std::int32_t> slot;
};

/// Deals the tokens of each (source, expert) to the split entries in the order in which they stand, tokens in
/// row order (docs/formats.md); experts without a copy in the group go home. Local.
///
/// Example: tokens 0, 1, 2 of rank 0 all choose expert 5, split (5, 0, rank 0, 1), (5, 0, rank 2, 2): token 0
/// stays on rank 0, tokens 1 and 2 go to rank 2.
///
/// Throws Fault::input, naming the cell, expert and source, where a split does not sum to the dump's count or
/// names a rank that does not hold the expert: nothing is sent for such a plan.
Dealt deal(const CellRoutes& routes, RankId source, const Holders& holders, MicroBatchId m, LayerId l,
           std::span<const SplitEntry> split);

/// The `balanced` control: the assignments of a group in a cell, numbered through its sources (`first` is
/// this source's first number), go to its ranks in turn, and on a rank to its home slots in turn. So loads of
/// ranks, and of slots on a rank, differ by at most one, and every source contributes in proportion.
/// `used_slots` (P): home slots in use on each rank; where 0, slot 0 takes the load.
Dealt deal_evenly(const CellRoutes& routes, std::int64_t first, const Topology& topology, GroupId group,
                  std::span<const std::int32_t> used_slots);

}  // namespace relibra::exec
