#pragma once
// The measures of lib/cost/metrics.h over a whole plan, and the documents they go into.
#include <functional>
#include <nlohmann/json.hpp>

#include "lib/cost/metrics.h"
#include "lib/job/plan.h"
#include "lib/job/recount.h"

namespace relibra {

/// The slowest rank of one EP group at best, for these homes and V spare slots: the largest replica_bound
/// over the domains within which copies may lie. `expert_tokens`, `home`: (E).
std::int64_t placement_bound(const PlanHeader& header, std::span<const EpRankId> home,
                             std::span<const std::int64_t> expert_tokens);

/// Samples of a recounted micro-batch, with traffic and replica bounds. Ids in `cells` must be in range.
void sample_recount(const Plan& plan, const PlanCells& cells, MicroBatchRecount& recount, PlanSamples& out);

/// Collective: the samples of all ranks on every rank, by (cell, group).
PlanSamples gather_samples(const Comm& comm, const PlanSamples& mine);

/// Collective. Processes share out the micro-batches; `take` sees the cells of one at a time, without
/// transfers, and must not be collective. Its failures are agreed on. Never called without cells.
void for_each_micro_batch(const Comm& comm, const PlanView& view,
                          const std::function<void(const PlanCells&)>& take);

/// Collective: what the plan's own tables tell, without the dump: no traffic, no replica bound.
PlanSamples measure_tables(const Comm& comm, const PlanView& view);

/// Collective: all measures, by a recount against the dump. The plan must be valid.
PlanSamples measure_plan(const Comm& comm, RoutingSource& source, const PlanView& view,
                         const RecountOptions& options);

/// How a plan was made, for the record.
struct RunFigures {
  int ranks = 1, threads = 1;
  std::int64_t bytes_read = 0;    ///< of all ranks
  std::vector<PhaseTime> phases;  ///< seconds, in order
};

/// {"mean", "p50", "p99", "max"}, or null where there are no values.
nlohmann::ordered_json statistics_json(const Statistics& statistics);

/// {"skew": {"mean", "p50", "p99", "max"}, ...} before and after, copies, moves: of all layers or one.
/// Traffic, replica bound and bytes are null where they were not measured or the model's shape is not known.
nlohmann::ordered_json summary_json(const Plan& plan, const PlanSamples& samples, const ExpertBytes& bytes,
                                    std::optional<LayerId> layer = {});

/// The header of a plan.
nlohmann::ordered_json header_json(const PlanHeader& header);

/// The document of `plan --metrics`: {"format", "version", "plan": header_json, "overall": summary_json,
/// "layers": [{"layer": model block, summary_json ...}], "run": {"ranks", "threads", "bytes_read",
/// "seconds"}}.
nlohmann::ordered_json metrics_json(const Plan& plan, const PlanSamples& samples, const ExpertBytes& bytes,
                                    const RunFigures& run);

}  // namespace relibra
