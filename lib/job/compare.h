#pragma once
// Policies side by side on one dump: counted once, planned by each, measured and timed by a model.
#include <optional>
#include <string>
#include <vector>

#include "lib/cost/metrics.h"
#include "lib/cost/step_time.h"
#include "lib/job/plan.h"

namespace relibra {

struct CompareOptions {
  PlanOptions plan;                   ///< `policy` is not looked at
  std::vector<std::string> policies;  ///< of the table, in its order; empty: all
  std::vector<Cluster> clusters;
  LayerModel model;
  StepTimeOptions time;
  std::optional<PreviousPlan> previous;  ///< of every policy
};

/// What a policy comes to on a cluster, the same on every process.
struct PolicyResult {
  std::string policy;
  std::string refusal;  ///< why it has no plan for this shape; then nothing below is filled
  PlanHeader header;
  PlanSummary summary;
  MoveMeasures moves;
  int spare_slots = 0;  ///< physical slots of a rank over ceil(E/P)
  StepWork work;
  std::int64_t slot_bytes = 0;
  double planning_seconds = 0;  ///< the slowest rank's; the only figure that depends on the machine
  StepTimes time;
};

/// One shape (EP size, slots and so on) on one cluster.
struct Comparison {
  std::size_t cluster = 0;  ///< index in CompareOptions::clusters
  Topology topology;
  int replica_slots = 0;
  std::vector<PolicyResult> policies;  ///< `static` first, `balanced` last

  const PolicyResult& at_static() const { return policies.front(); }
  const PolicyResult& balanced() const { return policies.back(); }
  double over_static(const PolicyResult& policy) const {
    return at_static().time.total() / policy.time.total();
  }
  double of_balanced(const PolicyResult& policy) const {
    return balanced().time.total() / policy.time.total();
  }
};

/// Values of one option to go through.
struct SweepAxis {
  std::string option;  ///< "ep-size", "ep-groups", "gpus-per-node" or "replica-slots"
  std::vector<int> values;
};
/// "ep-size=8,16,32". Throws Fault::usage.
SweepAxis parse_sweep_axis(const std::string& text);

/// Collective. One comparison for each combination of the axes' values, the last axis fastest, and for each
/// cluster, which goes fastest; without axes those of `options`. Where `options.plan` has no prices of its
/// own, moves and pushes are priced as on the cluster (lib/cost/prices.h), moves also from contiguous blocks,
/// so policies that look at prices have a plan for each cluster. The same for any number of ranks and
/// threads, but for planning_seconds. `static` and the control `balanced` are always among the results; a
/// policy that can't plan a shape is there with its refusal. Where a shape has another number of ranks than
/// `options`, source ranks fixed by the dump are left to the planner. Throws, agreed: Fault::usage for a
/// policy or option that does not exist and where `static` has no plan, Fault::input as recount() does.
std::vector<Comparison> compare_policies(const Comm& comm, RoutingSource& source,
                                         const CountedRouting& counted, const CompareOptions& options,
                                         const std::vector<SweepAxis>& axes, const Progress& progress);

/// Of a sweep: the fewest replica slots whose modelled step is within `within` of the policy's fastest at
/// this topology.
struct EnoughSlots {
  std::size_t cluster = 0;
  Topology topology;
  std::string policy;
  int slots = 0;
  double seconds = 0, fastest = 0;  ///< modelled step with those, and at best
};
std::vector<EnoughSlots> enough_slots(const std::vector<Comparison>& sweep, double within = 0.01);

}  // namespace relibra
