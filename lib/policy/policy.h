#pragma once
// A policy is two verbs: `between_steps` chooses homes (and copies that stay for the whole step),
// `inside_step` chooses the copies and the split of one cell. Both are local and pure: same input, same
// result, on any rank or thread.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/counts.h"
#include "lib/model/placement.h"
#include "lib/model/plan.h"

namespace relibra {

/// What single policies depend on; the others do not look at it.
struct PolicyDetails {
  int expert_groups = 1;  ///< eplb, lplb: runs of experts that stay on one node where they divide by nodes
  std::string lplb_graph = "auto";                      ///< lplb: of copy_graph_names(), or "auto"
  ReplicaDomain ultraep_domain = ReplicaDomain::group;  ///< ultraep: how far copies may lie
  std::int64_t ultraep_floor = 1024;  ///< ultraep: fewest tokens of a copy, in the second form of the search
  /// relibra-hybrid: price of a copy on another node, in assignments of the slowest rank. An expert has 3*H*I
  /// parameters, of which 2 bytes go out forward, and 2 out and 4 in backward, at the same time; an
  /// assignment costs 18*H*I operations: (3 * 6 B / 50 GB/s) / (18 / 400 TFLOP/s) = 8000, the default.
  /// lib/cost/prices.h has those of a cluster.
  std::optional<double> push_price;
  /// relibra-hybrid: what of that attention hides, over the mean assignments of a rank: the time of attention
  /// over that of its experts. Default 0.5.
  std::optional<double> push_shadow;
  /// relibra-hybrid: price of an assignment on another node than its token's, over the ranks. Default 0.
  std::optional<double> far_price;
};

/// Everything a policy may depend on besides loads.
struct PolicyOptions {
  Topology topology;
  int num_experts = 0;
  int replica_slots = 2;                ///< V, spare slots a rank
  double tolerance = 0.01;              ///< a cell may exceed its bound by this share to save copies
  int max_fan_out = 0;                  ///< copies one home may have in a cell; 0: no limit
  std::int64_t search_moves = 100'000;  ///< moves of the reordering search, a layer
  double move_cost = 0;  ///< price of moving one expert between steps, in assignments of the slowest rank
  std::uint64_t seed = 0;
  PolicyDetails details = {};
};

/// What of a plan's shape depends on the policy.
struct PlanShape {
  int slots_per_rank = 0;  ///< C
  int replica_slots = 0;   ///< V as written
  int physical_slots = 0;
  ReplicaDomain domain = ReplicaDomain::node;
};

/// One layer of the step, for between_steps.
struct LayerInput {
  LayerId layer;
  const LayerLoads& loads;                  ///< (M*D, E)
  std::span<const EpRankId> previous_home;  ///< (E) contiguous blocks where there was no plan before
};

/// A copy that stays for the whole step, the same in every EP group.
struct StepCopy {
  ExpertId expert;
  EpRankId rank;
  auto operator<=>(const StepCopy&) const = default;
};

struct LayerDecision {
  std::vector<EpRankId> home;  ///< (E)
  std::vector<StepCopy>
      step_copies;  ///< sorted; inside_step makes them copies of every cell, or an empty list decides nothing
  std::int64_t search_moves = 0;  ///< moves the search made
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual PlanShape shape() const = 0;
  virtual LayerDecision between_steps(const LayerInput& input) const = 0;
  /// Copies and split of one cell, all EP groups of it. Sorted as CellPlan says.
  virtual CellPlan inside_step(const LayerDecision& layer, const CellCounts& counts) const = 0;
};

/// One line of the table of policies: it yields the option's values, the help text and the parser.
struct PolicyEntry {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Policy> (*make)(const PolicyOptions&);
  bool priced = false;  ///< its plans depend on the prices of moves and pushes
};

std::span<const PolicyEntry> policies();

/// Throws Fault::usage that lists the names where there is none of this name.
std::unique_ptr<Policy> make_policy(std::string_view name, const PolicyOptions& options);

}  // namespace relibra
