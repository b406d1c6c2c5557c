#pragma once
// Cells of a plan in memory, spread over the processes, handed to whoever asks for them.
#include "lib/comm/comm.h"
#include "lib/job/recount.h"

namespace relibra {

/// Collective: every process asks for a range of its own, which may be empty, and gets the copies and splits
/// of those cells, without tables. `mine` is share_of(num_cells, rank, size), as plan_step leaves it.
PlanCells fetch_cells(const Comm& comm, const PlanCells& mine, Range wanted);

/// A plan in memory as recount() reads it. All three must outlive the view; `read` gives no tables.
PlanView view_of(const Comm& comm, const Plan& plan, const PlanCells& mine);

}  // namespace relibra
