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
  LayerDecision between_steps(const LayerInput& input) const override {
    return reordered_homes(options_, input);
  }

  CellPlan inside_step(const LayerDecision& layer, const CellCounts& counts) const override {
    CellPlan plan;
    if (options_.replica_slots == 0) return plan;
    const Topology& topology = options_.topology;
    const auto nodes = cell_domains(counts, topology, layer.home, topology.domain_size());
    const auto in_nodes = replicate_domains(options_, nodes);
    for (const CellDomain& group : cell_domains(counts, topology, layer.home, topology.ep_size)) {
      std::vector<Quota> quotas;
      for (std::size_t n = 0; n < nodes.size(); ++n)
        if (nodes[n].group == group.group)
          for (const Quota& q : in_nodes[n].quotas)  // all experts are in the group, so ids are positions
            quotas.push_back({nodes[n].expert[static_cast<std::size_t>(q.expert)],
                              nodes[n].first.value() + q.rank, q.tokens});
      std::sort(quotas.begin(), quotas.end(), [](const Quota& a, const Quota& b) {
        return a.expert != b.expert ? a.expert < b.expert : a.rank < b.rank;
      });
      const AcrossOptions across{.copies = {.slots = options_.replica_slots,
                                            .tolerance = options_.tolerance,
                                            .max_fan_out = options_.max_fan_out},
                                 .node_ranks = topology.domain_size(),
                                 .push_price = options_.details.push_price.value_or(8000),
                                 .push_shadow = options_.details.push_shadow.value_or(0.5)};
      append_quotas(group, replicate_across(group.loads(), quotas, across).quotas, counts, topology, plan);
    }
    finish_cell(plan, topology);
    return plan;
  }

 private:
  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_relibra_hybrid(const PolicyOptions& options) {
  return std::make_unique<HybridPolicy>(options);
}

}  // namespace relibra
