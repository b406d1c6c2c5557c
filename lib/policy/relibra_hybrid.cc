// Both stages, and copies on other nodes in the cells where node skew costs more than their way.
#include <algorithm>

#include "lib/planning/replicate_across.h"
#include "lib/policy/cell.h"
#include "lib/policy/policies.h"

namespace relibra {
namespace {

class HybridPolicy : public Policy {
 public:
  explicit HybridPolicy(const PolicyOptions& options) : options_(options) {}

  PlanShape shape() const override {
    PlanShape shape = node_shape(options_, true);
    shape.domain = ReplicaDomain::group;
    return shape;
  }
  /// Copies on other nodes may even out what moves would: then experts stay where they are.
  LayerDecision between_steps(const LayerInput& input) const override {
    LayerDecision decision = reordered_homes(options_, input);
    if (options_.move_cost == 0 || options_.replica_slots == 0 || !can_stay(input.previous_home))
      return decision;
    double moves = 0;
    for (std::size_t e = 0; e < decision.home.size(); ++e)
      moves += decision.home[e] != input.previous_home[e] ? options_.move_cost : 0;
    const double moved = cost(input.loads, decision.home) + moves / options_.topology.ep_size;
    if (cost(input.loads, input.previous_home) <= moved)
      decision.home.assign(input.previous_home.begin(), input.previous_home.end());
    return decision;
  }

  CellPlan inside_step(const LayerDecision& layer, const CellCounts& counts) const override {
    CellPlan plan;
    if (options_.replica_slots == 0) return plan;
    const Topology& topology = options_.topology;
    const auto nodes = cell_domains(counts, topology, layer.home, topology.domain_size());
    const auto per_group = static_cast<std::size_t>(topology.domains_per_group());
    for (const CellDomain& group : cell_domains(counts, topology, layer.home, topology.ep_size)) {
      const auto of_group = std::span(nodes).subspan(group.group.index() * per_group, per_group);
      append_quotas(group, group_plan(group, of_group).quotas, counts, topology, plan);
    }
    finish_cell(plan, topology);
    return plan;
  }

 private:
  AcrossOptions across() const {
    return {.copies = {.slots = options_.replica_slots,
                       .tolerance = options_.tolerance,
                       .max_fan_out = options_.max_fan_out},
            .node_ranks = options_.topology.domain_size(),
            .push_price = options_.details.push_price.value_or(8000),
            .push_shadow = options_.details.push_shadow.value_or(0.5),
            .far_price = options_.details.far_price.value_or(0),
            .quota_floor = options_.details.ultraep_floor};
  }

  /// Copies of one group in one cell; `nodes` are its domains. All experts are in the group, so ids are
  /// positions.
  DomainPlan group_plan(const CellDomain& group, std::span<const CellDomain> nodes) const {
    const auto in_nodes = replicate_domains(options_, nodes);
    std::vector<Quota> quotas;
    for (std::size_t n = 0; n < nodes.size(); ++n)
      for (const Quota& q : in_nodes[n].quotas)
        quotas.push_back(
            {nodes[n].expert[static_cast<std::size_t>(q.expert)], nodes[n].first.value() + q.rank, q.tokens});
    std::sort(quotas.begin(), quotas.end(), [](const Quota& a, const Quota& b) {
      return a.expert != b.expert ? a.expert < b.expert : a.rank < b.rank;
    });
    return replicate_across(group.loads(), quotas, across());
  }

  /// What all cells of a layer cost with these homes, without moves, in assignments of the slowest rank.
  double cost(const LayerLoads& loads, std::span<const EpRankId> home) const {
    const int width = options_.topology.ep_size;
    double sum = 0;
    for (const MicroBatchId m : all<MicroBatchId>(loads.micro_batches))
      for (const GroupId g : all<GroupId>(loads.groups)) {
        const auto load = loads.of(m, g);
        const CellDomain group = group_domains(load, g, width, home, width).front();
        const DomainPlan plan =
            group_plan(group, group_domains(load, g, width, home, options_.topology.domain_size()));
        sum += cost_across(group.loads(), plan.max_load, plan.quotas, across());
      }
    return sum;
  }

  bool can_stay(std::span<const EpRankId> home) const {
    std::vector<int> count(static_cast<std::size_t>(options_.topology.ep_size), 0);
    for (const EpRankId rank : home) ++count[rank.index()];
    return *std::max_element(count.begin(), count.end()) <=
           home_slots(options_.num_experts, options_.topology.ep_size);
  }

  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_relibra_hybrid(const PolicyOptions& options) {
  return std::make_unique<HybridPolicy>(options);
}

}  // namespace relibra
