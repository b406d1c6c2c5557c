#pragma once
// The part of a plan file that every rank holds, read and validated by one process.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/model/plan.h"

namespace relibra::io {

struct PlanParts {
  Plan plan;
  std::vector<Move> moves;                 ///< as written
  std::vector<std::int64_t> copy_offset;   ///< (M*L+1) over the whole file
  std::vector<std::int64_t> split_offset;  ///< (M*L+1)
  bool has_transfers = false;
};

/// Local. Throws Fault::input naming file and dataset.
PlanParts read_plan_parts(const std::string& path);

/// Throws Fault::input naming the first entry of /replicas or /split that lies outside of its range.
void require_entries_in_range(const std::string& path, const PlanHeader& header, const PlanCells& cells);

/// (L, E) homes as numbers, and back.
std::vector<std::int32_t> homes_of(const Placement& placement);
Placement placement_of(const PlanHeader& header, const std::vector<std::int32_t>& homes);

/// The fields, for WireWriter and WireReader. Placements travel as their homes.
template <class Wire, class P>
void visit(Wire& wire, P& p) {
  auto& h = p.plan.header;
  wire(h.step), wire(h.policy), wire(h.seed), wire(h.tool);
  wire(h.num_experts), wire(h.top_k), wire(h.num_micro_batches), wire(h.topology);
  wire(h.slots_per_rank), wire(h.replica_slots), wire(h.physical_slots), wire(h.replica_domain);
  wire(h.dump_digest), wire(h.search_moves), wire(h.folded_copies), wire(h.layers);
  wire(p.plan.slot_expert), wire(p.plan.micro_batch), wire(p.plan.source_rank);
  wire(p.moves), wire(p.copy_offset), wire(p.split_offset), wire(p.has_transfers);
}

}  // namespace relibra::io
