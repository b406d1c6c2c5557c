#pragma once
// What the EPLB policies share: experts in physical slots, and tokens dealt evenly over the slots of an
// expert.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/planning/eplb.h"
#include "lib/policy/cell.h"
#include "lib/policy/policy.h"

namespace relibra {

/// `slots` physical slots in all for an EP group; the option's expert groups are packed onto its nodes where
/// they divide by them. Throws Fault::usage where experts do not divide by groups that are packed.
EplbShape eplb_shape(const PolicyOptions& options, int slots);

/// Where EPLB puts experts of these loads (E), one entry a slot, sorted; an expert may stand twice on a rank.
std::vector<StepCopy> eplb_slots(std::span<const std::int64_t> load, const EplbShape& shape);

/// Appends copies (slots unset) and split of one EP group: every expert's tokens are dealt floor or ceil over
/// its `slots` (all of the group, sorted; the home's among them or not), the larger parts first. Slots of one
/// rank become one copy that keeps the parts of all, or none on the home; plan.folded counts them.
///
/// Example: expert 0 has home 0, 10 tokens and slots on ranks 0 1 1: rank 0 computes 4, rank 1 one copy with
/// 3 + 3, folded 1.
void deal_over_slots(const CellDomain& group, std::span<const StepCopy> slots, const CellCounts& counts,
                     const Topology& topology, CellPlan& plan);

}  // namespace relibra
