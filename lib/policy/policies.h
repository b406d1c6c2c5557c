#pragma once
// The makers of all policies, one a file, for the table in policy.cc; and what several of them do alike.
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/policy/cell.h"
#include "lib/policy/policy.h"

namespace relibra {

std::unique_ptr<Policy> make_static(const PolicyOptions& options);
std::unique_ptr<Policy> make_greedy(const PolicyOptions& options);
std::unique_ptr<Policy> make_eplb(const PolicyOptions& options);
std::unique_ptr<Policy> make_eplb_micro_batch(const PolicyOptions& options);
std::unique_ptr<Policy> make_lplb(const PolicyOptions& options);
std::unique_ptr<Policy> make_ultraep(const PolicyOptions& options);
std::unique_ptr<Policy> make_relibra_split(const PolicyOptions& options);
std::unique_ptr<Policy> make_relibra_hybrid(const PolicyOptions& options);
std::unique_ptr<Policy> make_relibra_reorder(const PolicyOptions& options);
std::unique_ptr<Policy> make_relibra_replicate(const PolicyOptions& options);
std::unique_ptr<Policy> make_relibra(const PolicyOptions& options);

/// ceil(E/P) home slots, the option's replica slots, copies inside a node; C + V physical slots, or C for a
/// policy that `makes_copies` not.
PlanShape node_shape(const PolicyOptions& options, bool makes_copies);

/// (E) loads of the step, all micro-batches and EP groups together.
std::vector<std::int64_t> totals_of(const LayerLoads& loads);

/// Contiguous blocks of ceil(E/P) experts.
LayerDecision contiguous_homes(const PolicyOptions& options);

/// Homes by expert reordering (stage 1), seeded by the option's seed and the layer.
LayerDecision reordered_homes(const PolicyOptions& options, const LayerInput& input);

/// Expert replication (stage 2) in all domains of a cell, each no better than the slowest of its EP group
/// asks.
std::vector<DomainPlan> replicate_domains(const PolicyOptions& options, std::span<const CellDomain> domains);

/// Copies and split by expert replication (stage 2) in every node of every EP group of the cell.
CellPlan replicated_cell(const PolicyOptions& options, const LayerDecision& layer, const CellCounts& counts);

/// The step's copies in every cell, with the best split that they allow. Both lie within runs of `ranks`
/// ranks.
CellPlan cell_of_step_copies(const PolicyOptions& options, const LayerDecision& layer,
                             const CellCounts& counts, int ranks);

}  // namespace relibra
