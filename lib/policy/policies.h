#pragma once
// The makers of all policies, one a file, for the table in policy.cc; and what several of them do alike.
#include <memory>

#include "lib/policy/policy.h"

namespace relibra {

std::unique_ptr<Policy> make_static(const PolicyOptions& options);
std::unique_ptr<Policy> make_greedy(const PolicyOptions& options);
std::unique_ptr<Policy> make_relibra_reorder(const PolicyOptions& options);
std::unique_ptr<Policy> make_relibra_replicate(const PolicyOptions& options);
std::unique_ptr<Policy> make_relibra(const PolicyOptions& options);

/// ceil(E/P) home slots, the option's replica slots, copies inside a node; C + V physical slots, or C for a
/// policy that `makes_copies` not.
PlanShape node_shape(const PolicyOptions& options, bool makes_copies);

/// Contiguous blocks of ceil(E/P) experts.
LayerDecision contiguous_homes(const PolicyOptions& options);

/// Homes by expert reordering (stage 1), seeded by the option's seed and the layer.
LayerDecision reordered_homes(const PolicyOptions& options, const LayerInput& input);

/// Copies and split by expert replication (stage 2) in every node of every EP group of the cell.
CellPlan replicated_cell(const PolicyOptions& options, const LayerDecision& layer, const CellCounts& counts);

}  // namespace relibra
