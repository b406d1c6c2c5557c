// The toy to beat: experts dealt largest first by the step's totals, then plain greedy copies without
// chaining. A baseline for docs and comparisons.
#include <algorithm>
#include <numeric>

#include "lib/planning/copy_split.h"
#include "lib/policy/cell.h"
#include "lib/policy/policies.h"

namespace relibra {
namespace {

// Largest total first, each to the lightest rank with a free home slot.
std::vector<EpRankId> largest_first(const LayerLoads& loads, const Topology& topology) {
  const std::vector<std::int64_t> total = totals_of(loads);
  const std::size_t experts = total.size();
  std::vector<std::size_t> order(experts);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return total[a] > total[b]; });
  std::vector<std::int64_t> rank_load(static_cast<std::size_t>(topology.ep_size), 0);
  std::vector<int> held(rank_load.size(), 0);
  std::vector<EpRankId> home(experts);
  const int slots = home_slots(loads.experts, topology.ep_size);
  for (std::size_t e : order) {
    std::size_t best = rank_load.size();
    for (std::size_t r = 0; r < rank_load.size(); ++r)
      if (held[r] < slots && (best == rank_load.size() || rank_load[r] < rank_load[best])) best = r;
    home[e] = EpRankId(best);
    rank_load[best] += total[e];
    ++held[best];
  }
  return home;
}

class GreedyPolicy : public Policy {
 public:
  explicit GreedyPolicy(const PolicyOptions& options) : options_(options) {}
  PlanShape shape() const override { return node_shape(options_, true); }
  LayerDecision between_steps(const LayerInput& input) const override {
    LayerDecision decision;
    decision.home = largest_first(input.loads, options_.topology);
    return decision;
  }
  CellPlan inside_step(const LayerDecision& layer, const CellCounts& counts) const override {
    CellPlan plan;
    const Topology& topology = options_.topology;
    for (const CellDomain& domain : cell_domains(counts, topology, layer.home, topology.domain_size()))
      append_quotas(domain, copies(domain), counts, topology, plan);
    finish_cell(plan, topology);
    return plan;
  }

 private:
  // The fullest rank gives the emptiest rank that has a free slot half of their difference, of its largest
  // expert, until that changes nothing.
  std::vector<Quota> copies(const CellDomain& domain) const {
    CopySplit split;
    split.reset(domain.loads());
    for (;;) {
      int from = 0, to = -1, expert = -1;
      for (int r = 0; r < split.ranks(); ++r) {
        if (split.load(r) > split.load(from)) from = r;
        if (split.copies_on(r) < options_.replica_slots && (to < 0 || split.load(r) < split.load(to))) to = r;
      }
      if (to < 0 || (options_.max_fan_out > 0 && split.copies_of_home(from) >= options_.max_fan_out)) break;
      for (std::size_t e = 0; e < domain.home.size(); ++e) {
        const int candidate = static_cast<int>(e);
        if (domain.home[e] == from && !split.holds(candidate, to) &&
            (expert < 0 || split.at_home(candidate) > split.at_home(expert)))
          expert = candidate;
      }
      if (expert < 0) break;
      const std::int64_t amount = std::min((split.load(from) - split.load(to)) / 2, split.at_home(expert));
      if (amount <= 0) break;
      split.add(expert, to, amount);
    }
    return split.quotas();
  }

  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_greedy(const PolicyOptions& options) {
  return std::make_unique<GreedyPolicy>(options);
}

}  // namespace relibra
