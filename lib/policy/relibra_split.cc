// Splitting alone: contiguous homes, copies chosen once a step from its totals, and in every cell the best
// split for them.
#include <algorithm>

#include "lib/policy/cell.h"
#include "lib/policy/policies.h"

namespace relibra {
namespace {

/// Copies of one node, chosen on the totals of the step.
class NodeCopies {
 public:
  NodeCopies(DomainLoad node, int slots) : node_(node), slots_(slots) {
    const ReplicateOptions options{.slots = slots, .tolerance = 0};
    copies_ = replicate(node, options).quotas;
    fill();
  }
  std::span<const Quota> copies() const { return copies_; }

 private:
  /// Cells differ from their total, so no slot is left empty: each takes the expert with most load a holder.
  void fill() {
    std::vector<int> holders(node_.load.size(), 1), used(static_cast<std::size_t>(node_.ranks), 0);
    for (const Quota& copy : copies_) {
      ++holders[static_cast<std::size_t>(copy.expert)];
      ++used[static_cast<std::size_t>(copy.rank)];
    }
    for (int r = 0; r < node_.ranks; ++r)
      for (int& n = used[static_cast<std::size_t>(r)]; n < slots_; ++n) {
        int best = -1;
        for (std::size_t e = 0; e < holders.size(); ++e)
          if (!holds(static_cast<int>(e), r) &&
              (best < 0 || share(e, holders) > share(static_cast<std::size_t>(best), holders)))
            best = static_cast<int>(e);
        if (best < 0) break;
        copies_.push_back({best, r, 0});
        ++holders[static_cast<std::size_t>(best)];
      }
  }
  bool holds(int expert, int rank) const {
    return node_.home[static_cast<std::size_t>(expert)] == rank ||
           std::any_of(copies_.begin(), copies_.end(),
                       [&](const Quota& c) { return c.expert == expert && c.rank == rank; });
  }
  double share(std::size_t e, const std::vector<int>& holders) const {
    return static_cast<double>(node_.load[e]) / holders[e];
  }

  DomainLoad node_;
  int slots_;
  std::vector<Quota> copies_;
};

class SplitPolicy : public Policy {
 public:
  explicit SplitPolicy(const PolicyOptions& options) : options_(options) {}
  PlanShape shape() const override { return node_shape(options_, true); }

  LayerDecision between_steps(const LayerInput& input) const override {
    LayerDecision decision = contiguous_homes(options_);
    if (options_.replica_slots == 0) return decision;
    const std::vector<std::int64_t> total = totals_of(input.loads);
    const int ranks = options_.topology.domain_size();
    for (int first = 0; first < options_.topology.ep_size; first += ranks) {
      std::vector<ExpertId> expert;
      std::vector<std::int32_t> home;
      std::vector<std::int64_t> load;
      for (ExpertId e : all<ExpertId>(options_.num_experts)) {
        const int r = decision.home[e.index()].value() - first;
        if (r < 0 || r >= ranks) continue;
        expert.push_back(e);
        home.push_back(r);
        load.push_back(total[e.index()]);
      }
      const NodeCopies node({ranks, home, load}, options_.replica_slots);
      for (const Quota& copy : node.copies())
        decision.step_copies.push_back(
            {expert[static_cast<std::size_t>(copy.expert)], EpRankId(first + copy.rank)});
    }
    std::sort(decision.step_copies.begin(), decision.step_copies.end());
    return decision;
  }

  CellPlan inside_step(const LayerDecision& layer, const CellCounts& counts) const override {
    return cell_of_step_copies(options_, layer, counts, options_.topology.domain_size());
  }

 private:
  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_relibra_split(const PolicyOptions& options) {
  return std::make_unique<SplitPolicy>(options);
}

}  // namespace relibra
