#pragma once
// The planning of one step: counts in, a plan in memory out. Files are the caller's business
// (job/plan_files.h).
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/count/count.h"
#include "lib/model/plan.h"
#include "lib/model/routing.h"
#include "lib/planning/pack.h"
#include "lib/policy/policy.h"

namespace relibra {

/// Everything a plan depends on besides the dump and the plan before it.
struct PlanOptions {
  Topology topology;
  std::string policy = "relibra";
  int replica_slots = 2;          ///< V, spare slots a rank
  double tolerance = 0.01;        ///< a cell may exceed its bound by this share, to save copies
  int max_fan_out = 0;            ///< copies one home may have in a cell; 0: no limit
  std::int64_t effort = 100'000;  ///< search moves a layer
  double time_budget = 0;         ///< seconds for plan_step; 0: `effort` says how long to search
  bool fall_back = false;         ///< where the budget is missed: homes as before, no copies, at once
  std::uint64_t seed = 0;
  std::optional<double> move_cost;  ///< assignments a moved expert costs; absent: derived_move_cost()
  bool priced_start = false;        ///< moves cost that also from contiguous blocks, where there was no plan
  PolicyDetails details;            ///< what single policies look at
  PackOptions pack;                 ///< where the dump has no micro-batches
  bool repack = false;    ///< then swap sequences between them to even out nodes (planning/repack.h)
  bool transfers = true;  ///< fill PlanCells::transfer
};

/// Price of moving one expert between two steps, in assignments of the slowest rank: the time to send its
/// weights and both moments over the network, over the time of one assignment. With hidden size H and expert
/// size I an expert has 3*H*I parameters of 14 bytes (bfloat16 weight; float32 master, two moments), and an
/// assignment costs 18*H*I operations forward and backward, so H*I cancels:
///   (3 * 14 B / 50 GB/s) / (18 / 400 TFLOP/s) = 0.84 ns / 0.045 ps = 18 667.
double derived_move_cost();

/// Where experts are before a step: what the plan before left. Shapes as in Plan.
struct PreviousPlan {
  std::vector<std::int32_t> layers;
  int num_experts = 0, ep_size = 0, slots_per_rank = 0;
  Placement placement;
  std::vector<ExpertId> slot_expert;
};
PreviousPlan previous_of(const Plan& plan);

struct PhaseTime {
  std::string phase;
  double seconds = 0;  ///< of the slowest rank
};

struct PlanResult {
  Plan plan;
  PlanCells mine;  ///< cells share_of(num_cells, rank, size)
  std::vector<PhaseTime> phases;
  bool fell_back = false;  ///< the budget was missed, see PlanOptions::fall_back
};

/// Told how far a phase is, 0 to 1; called on every rank, often, by one thread at a time.
using Progress = std::function<void(std::string_view phase, double done)>;

/// Collective. Same result for any number of ranks and threads, except with a time budget, where the result's
/// search_moves passed as `effort` gives the same plan again. `counted` is of this dump, `previous` may be
/// null. Throws, agreed: Fault::usage for options that contradict each other, the dump or the plan before.
PlanResult plan_step(const Comm& comm, const RoutingDump& dump, const CountedRouting& counted,
                     const PlanOptions& options, const PreviousPlan* previous, const Progress& progress);

}  // namespace relibra
