// Contiguous blocks of experts and no copies, as Megatron-LM places them.
#include "lib/policy/policies.h"

namespace relibra {
namespace {

class StaticPolicy : public Policy {
 public:
  explicit StaticPolicy(const PolicyOptions& options) : options_(options) {}
  PlanShape shape() const override { return node_shape(options_, false); }
  LayerDecision between_steps(const LayerInput&) const override { return contiguous_homes(options_); }
  CellPlan inside_step(const LayerDecision&, const CellCounts&) const override { return {}; }

 private:
  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_static(const PolicyOptions& options) {
  return std::make_unique<StaticPolicy>(options);
}

}  // namespace relibra
