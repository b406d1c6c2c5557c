// EPLB run anew on the loads of every micro-batch: what it could reach if moving experts cost nothing. Homes
// are contiguous blocks; whatever EPLB puts elsewhere is a copy, and a home outside of its places computes
// nothing.
#include "lib/policy/policies.h"
#include "lib/policy/slots.h"

namespace relibra {
namespace {

class EplbMicroBatchPolicy : public Policy {
 public:
  explicit EplbMicroBatchPolicy(const PolicyOptions& options)
      : options_(options),
        homes_(home_slots(options.num_experts, options.topology.ep_size)),
        eplb_(eplb_shape(options, (homes_ + options.replica_slots) * options.topology.ep_size)) {}

  PlanShape shape() const override {
    const int copies = homes_ + options_.replica_slots;
    return {.slots_per_rank = homes_,
            .replica_slots = copies,
            .physical_slots = homes_ + copies,
            .domain = ReplicaDomain::group};
  }

  LayerDecision between_steps(const LayerInput&) const override { return contiguous_homes(options_); }

  CellPlan inside_step(const LayerDecision& layer, const CellCounts& counts) const override {
    const Topology& topology = options_.topology;
    CellPlan plan;
    for (const CellDomain& group : cell_domains(counts, topology, layer.home, topology.ep_size))
      deal_over_slots(group, eplb_slots(group.load, eplb_), counts, topology, plan);
    finish_cell(plan, topology);
    return plan;
  }

 private:
  PolicyOptions options_;
  int homes_;
  EplbShape eplb_;
};

}  // namespace

std::unique_ptr<Policy> make_eplb_micro_batch(const PolicyOptions& options) {
  return std::make_unique<EplbMicroBatchPolicy>(options);
}

}  // namespace relibra
