// DeepSeek's LPLB: experts placed by EPLB without copies from the step's totals, copies on a fixed graph of
// ranks, and in every cell the best split for them, exact, as a flow.
#include <algorithm>

#include "lib/planning/copy_graph.h"
#include "lib/policy/policies.h"
#include "lib/policy/slots.h"

namespace relibra {
namespace {

class LplbPolicy : public Policy {
 public:
  explicit LplbPolicy(const PolicyOptions& options)
      : options_(options),
        eplb_(eplb_shape(options, options.num_experts)),
        graph_(copy_graph(options.details.lplb_graph, options.topology, options.replica_slots)) {}

  PlanShape shape() const override {
    const Topology& topology = options_.topology;
    const int homes = home_slots(options_.num_experts, topology.ep_size);
    return {
        .slots_per_rank = homes,
        .replica_slots = graph_.slots(),
        .physical_slots = homes + graph_.slots(),
        .domain = topology.domain_size() % graph_.ranks == 0 ? ReplicaDomain::node : ReplicaDomain::group};
  }

  LayerDecision between_steps(const LayerInput& input) const override {
    const std::vector<std::int64_t> total = totals_of(input.loads);
    LayerDecision decision;
    decision.home.resize(total.size());
    std::vector<std::vector<ExpertId>> of_rank(static_cast<std::size_t>(options_.topology.ep_size));
    for (const StepCopy& slot : eplb_slots(total, eplb_)) {
      decision.home[slot.expert.index()] = slot.rank;
      of_rank[slot.rank.index()].push_back(slot.expert);
    }
    for (auto& experts : of_rank)
      std::stable_sort(experts.begin(), experts.end(),
                       [&](ExpertId a, ExpertId b) { return total[a.index()] > total[b.index()]; });
    decision.step_copies = edges(of_rank);
    return decision;
  }

  CellPlan inside_step(const LayerDecision& layer, const CellCounts& counts) const override {
    return cell_of_step_copies(options_, layer, counts, graph_.ranks);
  }

 private:
  /// Each rank offers its hottest expert along its first edge, the next along its second.
  std::vector<StepCopy> edges(const std::vector<std::vector<ExpertId>>& of_rank) const {
    std::vector<StepCopy> copies;
    std::vector<std::size_t> offered(of_rank.size(), 0);
    for (const auto& from : graph_.from)
      for (int r = 0; r < options_.topology.ep_size; ++r) {
        const int run = r / graph_.ranks * graph_.ranks;
        const int giver = run + from[static_cast<std::size_t>(r - run)];
        const auto& experts = of_rank[static_cast<std::size_t>(giver)];
        auto& next = offered[static_cast<std::size_t>(giver)];
        if (giver != r && next < experts.size()) copies.push_back({experts[next++], EpRankId(r)});
      }
    std::sort(copies.begin(), copies.end());
    return copies;
  }

  PolicyOptions options_;
  EplbShape eplb_;
  CopyGraph graph_;
};

}  // namespace

std::unique_ptr<Policy> make_lplb(const PolicyOptions& options) {
  return std::make_unique<LplbPolicy>(options);
}

}  // namespace relibra
