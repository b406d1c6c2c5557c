#pragma once
// From a plan and routes to the schedules of the ranks that this process carries: the one exchange before the
// step, after which every rank knows all that will come to it.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/exec/schedule.h"

namespace relibra::exec {

/// The plan's ranks that process `process` of `processes` carries: all r with r % processes == process. One
/// each where there are as many processes as ranks.
std::vector<RankId> carried_ranks(const Topology& topology, int process, int processes);

struct ScheduleOptions {
  int max_fan_out = 4;  ///< messages a home sends before it relays; 0: no limit
  bool evenly = false;  ///< the `balanced` control: routes are dealt evenly to home slots, without copies
};

/// Collective. `cells` holds, on every process, at least the selected cells; `sources` the routes of the
/// carried ranks, in their order. Throws Fault::input, agreed, before anything of the step is sent, where the
/// plan's copies or splits break a rule or do not fit the routes (deal.h), or where a rank would compute
/// another number of assignments than the plan's rank_tokens says (if it holds them).
std::vector<RankSchedule> build_schedules(const Comm& comm, const Plan& plan, const PlanCells& cells,
                                          std::span<const SourceRoutes> sources, const Selection& selection,
                                          const ScheduleOptions& options);

/// The plan of the static control: contiguous blocks of ceil(E/P), no copies. Same topology and sequences.
Plan static_plan(const Plan& plan);

/// Cells without copies and splits over the same range.
PlanCells empty_cells(Range cells);

}  // namespace relibra::exec
