// UltraEP: contiguous homes that never move, copies per cell by its threshold search.
#include "lib/planning/quota.h"
#include "lib/policy/cell.h"
#include "lib/policy/policies.h"

namespace relibra {
namespace {

class UltraEpPolicy : public Policy {
 public:
  explicit UltraEpPolicy(const PolicyOptions& options) : options_(options) {}

  PlanShape shape() const override {
    PlanShape shape = node_shape(options_, true);
    shape.domain = options_.details.ultraep_domain;
    return shape;
  }
  LayerDecision between_steps(const LayerInput&) const override { return contiguous_homes(options_); }

  CellPlan inside_step(const LayerDecision& layer, const CellCounts& counts) const override {
    const Topology& topology = options_.topology;
    const bool anywhere = options_.details.ultraep_domain == ReplicaDomain::group;
    const QuotaOptions quota{.slots = options_.replica_slots, .floor = options_.details.ultraep_floor};
    CellPlan plan;
    for (const CellDomain& domain :
         cell_domains(counts, topology, layer.home, anywhere ? topology.ep_size : topology.domain_size()))
      append_quotas(domain, plan_quotas(domain.loads(), quota).quotas, counts, topology, plan);
    finish_cell(plan, topology);
    return plan;
  }

 private:
  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_ultraep(const PolicyOptions& options) {
  return std::make_unique<UltraEpPolicy>(options);
}

}  // namespace relibra
