#pragma once
// Random dumps with random but valid plans: homes, copies and splits that no policy would choose, so that an
// execution is tested on more than what planners make.
#include <cstdint>
#include <vector>

#include "lib/exec/routes.h"
#include "lib/model/memory_source.h"
#include "lib/model/plan.h"

namespace relibra::testing {

struct CaseOptions {
  Topology topology;
  int experts = 8, top_k = 2, layers = 2, micro_batches = 2, replica_slots = 2;
  int sequences = 8, max_rows = 12;
  double missing = 0.05;           ///< share of routes that are not recorded
  double missing_rows = 0.05;      ///< share of rows without any route
  double copy_share = 0.7;         ///< of replica slots that are used
  bool idle_rank = false;          ///< the last rank holds no sequence
  bool empty_micro_batch = false;  ///< micro-batch 0 holds no sequence
  bool weights = true;             ///< gate weights in the dump
  ReplicaDomain domain = ReplicaDomain::node;
};

struct ExecutionCase {
  RoutingDump dump;
  std::vector<std::int16_t> ids;  ///< (R, L, K), -1 missing
  std::vector<float> weights;     ///< (R, L, K) or empty
  Plan plan;
  PlanCells cells;  ///< all cells, with rank_tokens

  /// Routes of one cell by source rank, (W).
  std::vector<exec::CellRoutes> routes(MicroBatchId m, LayerId l) const;
  MemorySource source() const { return MemorySource(dump, ids, weights); }
};

/// The same for one (seed, options). `plan_seed` draws another plan for the same dump.
ExecutionCase execution_case(std::uint64_t seed, const CaseOptions& options, std::uint64_t plan_seed = 0);

/// Gives every cell copies of `expert` in slot 0 of all ranks but its homes, deals its tokens over them in
/// turn, and drops all other copies. The topology's domains must be whole groups, V at least 1.
void copy_everywhere(ExecutionCase& input, ExpertId expert);

/// Two tokens on rank 0, one layer, K = 2, weights 1/2 1/4 1 -: token 0 chooses experts 0 and 1, token 1
/// expert 0 alone. `world` ranks in one group and node; expert e lives on rank min(e, world - 1); rank 1, if
/// there is one, holds a copy of expert 0 that computes token 1.
ExecutionCase hand_case(int world);

}  // namespace relibra::testing
