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

std::vector<std::int64_t> totals_of(const LayerLoads& loads) {
  const auto experts = static_cast<std::size_t>(loads.experts);
  std::vector<std::int64_t> total(experts, 0);
  for (std::size_t i = 0; i < loads.data.size(); i += experts)
    for (std::size_t e = 0; e < experts; ++e) total[e] += loads.data[i + e];
  return total;
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
      .move_cost = options.move_cost,
      .copies = options.replica_slots > 0};
  auto result = reorder_experts(input.loads, options.topology, input.previous_home, search);
  LayerDecision decision;
  decision.home = std::move(result.home);
  decision.search_moves = result.moves;
  return decision;
}

// The ranks of a group wait for the slowest of them: once the most loaded node is done, the others need be no
// better.
std::vector<DomainPlan> replicate_domains(const PolicyOptions& options, std::span<const CellDomain> domains) {
  std::vector<std::int64_t> total;
  for (const CellDomain& d : domains)
    total.push_back(std::accumulate(d.load.begin(), d.load.end(), std::int64_t{0}));
  std::vector<std::size_t> order(domains.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return total[a] > total[b]; });
  std::vector<std::int64_t> slowest(static_cast<std::size_t>(options.topology.ep_groups), 0);
  std::vector<DomainPlan> plans(domains.size());
  for (std::size_t i : order) {
    std::int64_t& enough = slowest[domains[i].group.index()];
    plans[i] = replicate(domains[i].loads(), {.slots = options.replica_slots,
                                              .tolerance = options.tolerance,
                                              .max_fan_out = options.max_fan_out,
                                              .enough = enough});
    enough = std::max(enough, plans[i].max_load);
  }
  return plans;
}

CellPlan replicated_cell(const PolicyOptions& options, const LayerDecision& layer, const CellCounts& counts) {
  CellPlan plan;
  if (options.replica_slots == 0) return plan;
  const Topology& topology = options.topology;
  const auto domains = cell_domains(counts, topology, layer.home, topology.domain_size());
  const auto plans = replicate_domains(options, domains);
  // Appended by expert and group, the split needs no sorting.
  struct Part {
    std::int32_t expert;
    std::size_t domain, first, count;
  };
  std::vector<Part> parts;
  for (std::size_t d = 0; d < domains.size(); ++d)
    for (std::size_t i = 0; i < plans[d].quotas.size(); ++i) {
      const std::int32_t expert = domains[d].expert[static_cast<std::size_t>(plans[d].quotas[i].expert)];
      if (!parts.empty() && parts.back().domain == d && parts.back().expert == expert)
        ++parts.back().count;
      else
        parts.push_back({expert, d, i, 1});
    }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.expert != b.expert ? a.expert < b.expert : a.domain < b.domain;
  });
  for (const Part& p : parts)
    append_quotas(domains[p.domain], std::span(plans[p.domain].quotas).subspan(p.first, p.count), counts,
                  topology, plan);
  finish_cell(plan, topology);
  return plan;
}

CellPlan cell_of_step_copies(const PolicyOptions& options, const LayerDecision& layer,
                             const CellCounts& counts, int ranks) {
  CellPlan plan;
  for (const CellDomain& domain : cell_domains(counts, options.topology, layer.home, ranks)) {
    std::vector<Quota> copies;
    for (const StepCopy& copy : layer.step_copies) {
      const int rank = copy.rank.value() - domain.first.value();
      if (rank < 0 || rank >= ranks) continue;
      const auto expert = std::lower_bound(domain.expert.begin(), domain.expert.end(), copy.expert.value());
      copies.push_back({static_cast<std::int32_t>(expert - domain.expert.begin()), rank, 0});
    }
    append_quotas(domain, split_given_copies(domain.loads(), copies), counts, options.topology, plan);
  }
  finish_cell(plan, options.topology);
  return plan;
}

}  // namespace relibra
