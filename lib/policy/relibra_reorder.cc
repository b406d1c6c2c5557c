// Expert reordering alone: homes that balance nodes, no copies.
#include "lib/policy/policies.h"

namespace relibra {
namespace {

class ReorderPolicy : public Policy {
 public:
  explicit ReorderPolicy(const PolicyOptions& options) : options_(options) {}
  PlanShape shape() const override { return node_shape(options_, false); }
  LayerDecision between_steps(const LayerInput& input) const override {
    return reordered_homes(options_, input);
  }
  CellPlan inside_step(const LayerDecision&, const CellCounts&) const override { return {}; }

 private:
  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_relibra_reorder(const PolicyOptions& options) {
  return std::make_unique<ReorderPolicy>(options);
}

}  // namespace relibra
