// Expert replication alone: contiguous blocks, copies and splits per cell.
#include "lib/policy/policies.h"

namespace relibra {
namespace {

class ReplicatePolicy : public Policy {
 public:
  explicit ReplicatePolicy(const PolicyOptions& options) : options_(options) {}
  PlanShape shape() const override { return node_shape(options_, true); }
  LayerDecision between_steps(const LayerInput&) const override { return contiguous_homes(options_); }
  CellPlan inside_step(const LayerDecision& layer, const CellCounts& counts) const override {
    return replicated_cell(options_, layer, counts);
  }

 private:
  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_relibra_replicate(const PolicyOptions& options) {
  return std::make_unique<ReplicatePolicy>(options);
}

}  // namespace relibra
