// Both stages: reordering balances nodes between steps, replication evens out ranks in each node inside a
// step.
#include "lib/policy/policies.h"

namespace relibra {
namespace {

class RelibraPolicy : public Policy {
 public:
  explicit RelibraPolicy(const PolicyOptions& options) : options_(options) {}
  PlanShape shape() const override { return node_shape(options_, true); }
  LayerDecision between_steps(const LayerInput& input) const override {
    return reordered_homes(options_, input);
  }
  CellPlan inside_step(const LayerDecision& layer, const CellCounts& counts) const override {
    return replicated_cell(options_, layer, counts);
  }

 private:
  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_relibra(const PolicyOptions& options) {
  return std::make_unique<RelibraPolicy>(options);
}

}  // namespace relibra
