// DeepSeek's EPLB with the step's exact totals instead of a forecast: homes and copies fixed for the step,
// tokens dealt evenly over the slots of an expert.
#include <algorithm>

#include "lib/policy/policies.h"
#include "lib/policy/slots.h"

namespace relibra {
namespace {

class EplbPolicy : public Policy {
 public:
  explicit EplbPolicy(const PolicyOptions& options)
      : options_(options),
        per_rank_(home_slots(options.num_experts, options.topology.ep_size) + options.replica_slots),
        eplb_(eplb_shape(options, per_rank_ * options.topology.ep_size)) {}

  // A rank may hold anything from no home to nothing else.
  PlanShape shape() const override {
    return {.slots_per_rank = std::min(per_rank_, options_.num_experts),
            .replica_slots = std::min(per_rank_, eplb_.slots - options_.num_experts),
            .physical_slots = per_rank_,
            .domain = is_hierarchical(eplb_) ? ReplicaDomain::node : ReplicaDomain::group};
  }

  // Of an expert's slots the one on its previous home's rank is its home, else that of the rank with fewest
  // homes so far.
  LayerDecision between_steps(const LayerInput& input) const override {
    const auto slots = eplb_slots(totals_of(input.loads), eplb_);
    LayerDecision decision;
    decision.home.resize(static_cast<std::size_t>(options_.num_experts));
    std::vector<int> homes(static_cast<std::size_t>(options_.topology.ep_size), 0);
    for (auto first = slots.begin(); first != slots.end();) {
      const auto last =
          std::find_if(first, slots.end(), [&](const StepCopy& s) { return s.expert != first->expert; });
      auto home = std::find(first, last, StepCopy{first->expert, input.previous_home[first->expert.index()]});
      if (home == last)
        home = std::min_element(first, last, [&](const StepCopy& a, const StepCopy& b) {
          return homes[a.rank.index()] < homes[b.rank.index()];
        });
      decision.home[home->expert.index()] = home->rank;
      ++homes[home->rank.index()];
      decision.step_copies.insert(decision.step_copies.end(), first, home);
      decision.step_copies.insert(decision.step_copies.end(), home + 1, last);
      first = last;
    }
    return decision;
  }

  CellPlan inside_step(const LayerDecision& layer, const CellCounts& counts) const override {
    const Topology& topology = options_.topology;
    std::vector<StepCopy> slots = layer.step_copies;
    for (ExpertId e : all<ExpertId>(options_.num_experts)) slots.push_back({e, layer.home[e.index()]});
    std::sort(slots.begin(), slots.end());
    CellPlan plan;
    for (const CellDomain& group : cell_domains(counts, topology, layer.home, topology.ep_size))
      deal_over_slots(group, slots, counts, topology, plan);
    finish_cell(plan, topology);
    return plan;
  }

 private:
  PolicyOptions options_;
  int per_rank_;
  EplbShape eplb_;
};

}  // namespace

std::unique_ptr<Policy> make_eplb(const PolicyOptions& options) {
  return std::make_unique<EplbPolicy>(options);
}

}  // namespace relibra
