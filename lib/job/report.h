#pragma once
// Plans as the document that the page of `relibra report` shows. docs/report.md names its fields.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/job/recount.h"

namespace relibra {

/// One plan, on rank 0; empty elsewhere.
struct ReportedPlan {
  nlohmann::ordered_json document;  ///< all but the detail by expert
  std::vector<std::string> detail;  ///< (M) MicroBatchDetail::text
  std::vector<double> worst;        ///< (M) largest skew of the micro-batch under the plan
};

/// Collective. `name` is shown. Without a `source` (null) what the plan alone tells: no expert but the
/// replicated ones, no traffic, no replica bound. Throws Fault::input, agreed, where the plan is not of the
/// source.
ReportedPlan report_plan(const Comm& comm, const PlanView& view, const std::string& name,
                         RoutingSource* source, const RecountOptions& options);

/// What goes beside the plans: documents of `compare --json` and what report_trace makes of a trace, or null.
struct ReportExtras {
  nlohmann::ordered_json compare, trace;
};

struct ReportText {
  std::string json;           ///< no "<" in it: it may stand inside an HTML element
  std::int64_t left_out = 0;  ///< micro-batches of all plans without detail, because of the limit
};

/// Local. The whole document in at most `limit` bytes: where it would be larger, micro-batches lose their
/// detail by expert, those with the least `worst` first. Without any detail it may still be larger.
ReportText report_text(const std::vector<ReportedPlan>& plans, const ReportExtras& extras,
                       std::int64_t limit);

}  // namespace relibra
