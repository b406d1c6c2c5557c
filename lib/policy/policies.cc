#include "lib/policy/policies.h"

#include <algorithm>
#include <numeric>

#include "lib/base/random.h"
#include "lib/planning/reorder.h"
#include "lib/policy/cell.h"

namespace relibra {

PlanShape node_shape(const PolicyOptions& options, bool makes_copies) {
  const int homes = home_slots(options.num_experts, options.topology.ep_size);
  return {.slots_per_rank = homes,
          .replica_slots = options.replica_slots,
          .physical_slots = homes + (makes_copies ? options.replica_slots : 0),
          .domain = ReplicaDomain::node};
}

LayerDecision contiguous_homes(const PolicyOptions& options) {
  const auto placement = Placement::contiguous(1, options.num_experts, options.topology.ep_size);
  const auto home = placement.layer(LayerId(0));
  LayerDecision decision;
  decision.home.assign(home.begin(), home.end());
  return decision;
}

LayerDecision reordered_homes(const PolicyOptions& options, const LayerInput& input) {
  const ReorderOptions search{
      .moves = options.search_moves,
      .seed = mix64(options.seed ^ mix64(static_cast<std::uint64_t>(input.layer.value()) + 1)),
      .move_cost = input.has_previous ? options.move_cost : 0,
      .copies = options.replica_slots > 0};
  auto result = reorder_experts(input.loads, options.topology, input.previous_home, search);
  LayerDecision decision;
  decision.home = std::move(result.home);
  decision.search_moves = result.moves;
  return decision;
}

CellPlan replicated_cell(const PolicyOptions& options, const LayerDecision& layer, const CellCounts& counts) {
  CellPlan plan;
  if (options.replica_slots == 0) return plan;
  const Topology& topology = options.topology;
  auto domains = cell_domains(counts, topology, layer.home, topology.domain_size());
  const auto total = [](const CellDomain& d) {
    return std::accumulate(d.load.begin(), d.load.end(), std::int64_t{0});
  };
  std::stable_sort(domains.begin(), domains.end(), [&](const CellDomain& a, const CellDomain& b) {
    return a.group != b.group ? a.group < b.group : total(a) > total(b);
  });
  // The ranks of a group wait for the slowest of them: once the most loaded node is done, the others need be
  // no better.
  ReplicateOptions replication{
      .slots = options.replica_slots, .tolerance = options.tolerance, .max_fan_out = options.max_fan_out};
  for (std::size_t i = 0; i < domains.size(); ++i) {
    if (i == 0 || domains[i].group != domains[i - 1].group) replication.enough = 0;
    const DomainPlan found = replicate(domains[i].loads(), replication);
    replication.enough = std::max(replication.enough, found.max_load);
    append_quotas(domains[i], found.quotas, counts, topology, plan);
  }
  finish_cell(plan, topology);
  return plan;
}

}  // namespace relibra
