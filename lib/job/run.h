#pragma once
// The execution phase: a plan carried out on ranks, verified, measured, compared with controls. The same from
// a plan file (`relibra run`) and from a plan in memory (`relibra plan --execute`).
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/count/count.h"
#include "lib/exec/backend_choice.h"
#include "lib/exec/figures.h"
#include "lib/exec/measure.h"
#include "lib/exec/reorder.h"
#include "lib/exec/verify.h"
#include "lib/job/plan.h"

namespace relibra {

struct RunOptions {
  exec::BackendChoice backend = exec::BackendChoice::automatic;
  std::string model;                 ///< preset that gives the sizes; or
  int hidden = 0, intermediate = 0;  ///< these, which go before the preset's
  kernels::Type type = kernels::Type::float32;
  bool attention = true;      ///< the stand-in between MoE layers
  std::string layers;         ///< "0,7" or "0-3": routed layers 0..L-1; empty: all
  std::string micro_batches;  ///< likewise
  bool verify = false;        ///< against the placement-free reference
  bool baseline = false;      ///< static and balanced controls in the same run
  bool emulate = false;       ///< fewer processes than ranks: compute only
  bool dry_run = false;       ///< the schedule alone
  bool time = true;           ///< measure
  exec::RepeatOptions repeat;
  int relay_past = 4;                    ///< messages a home sends before copies pass weights on; 0: no limit
  std::int64_t memory_limit = 0;         ///< bytes a rank may take; 0: what is free
  double timeout_seconds = 60;           ///< a transfer without progress for that long has failed
  std::uint64_t seed = 1;                ///< of inputs and weights
  bool trace = false;                    ///< keep times of the last repeat
  std::optional<PreviousPlan> previous;  ///< reorder from its placement first
};

/// The plan or a control, measured.
struct RunVariant {
  std::string name;                        ///< "plan", "static", "balanced"
  std::vector<exec::CellFigures> figures;  ///< (W, cells)
  exec::Measured measured;                 ///< empty where not timed
  std::vector<exec::StepTimes> last;       ///< by rank, where asked for
};

/// The same on every process.
struct RunResult {
  std::string backend, device;  ///< "reference", "host"
  int processes = 0;
  PlanHeader header;
  exec::Selection selection;
  exec::ModelShape shape;
  bool emulated = false;
  std::vector<exec::MemoryItem> memory;  ///< largest over ranks, item by item
  std::int64_t memory_free = 0;          ///< least over ranks
  std::optional<exec::ReorderResult> reordering;
  std::optional<exec::VerifyReport> verify;
  std::vector<RunVariant> variants;  ///< the plan first
};

/// Hands every process the cells of a range; collective.
using CellsOf = std::function<PlanCells(Range)>;
/// What people hear along the way; called on every process.
struct RunVoice {
  std::function<void(const std::string& line)> say;
  Progress progress;
};

/// Collective. The dump must be the plan's (check_digest, or counted in the same job). Throws, agreed unless
/// said otherwise: Fault::usage for options that contradict the plan or the processes, Fault::input for a
/// plan that does not fit the dump, Fault::environment for too little memory or no device, and, not agreed,
/// for a lost rank.
RunResult run_plan(const Comm& comm, RoutingSource& source, const Plan& plan, const CellsOf& cells,
                   const RunOptions& options, const RunVoice& voice);

/// Collective. run_plan from files, after the digest was compared.
RunResult run_plan_file(const Comm& comm, const std::string& plan_path, const std::vector<std::string>& dumps,
                        const RunOptions& options, const CountOptions& count, const RunVoice& voice);

/// Collective. Cells that are spread over the processes, as plan_step leaves them, on every process.
PlanCells gather_cells(const Comm& comm, const PlanCells& mine, Range range);

/// "0,2-4" as 0 2 3 4, ascending and once each, below `count`; empty text: all. Throws Fault::usage naming
/// `option`.
std::vector<int> parse_list(std::string_view text, int count, std::string_view option);

/// Sizes of the execution. Throws Fault::usage where neither a model nor both sizes are given.
exec::ModelShape model_shape(const RunOptions& options, const RoutingDump& dump);

}  // namespace relibra
