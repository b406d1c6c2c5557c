#pragma once
// What is told of a step that has been planned (job/plan_files.h): remarks, measures, the document of both.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/job/metrics.h"
#include "lib/job/plan_files.h"

namespace relibra {

/// What people should know of a dump: "warning: ..." for each suspicion, "note: ..." for missing routes.
std::vector<std::string> remarks_on(const RoutingFindings& findings);

/// Collective. Measures of a planned step: by the plan's own tables, or with `recount` against the dump,
/// which adds traffic and replica bounds.
PlanSamples measure_step(const Comm& comm, PlannedStep& step, bool recount, const Progress& progress);

/// The document of `plan --metrics` (job/metrics.h). `model` names the shape for sizes in bytes; may be
/// empty.
nlohmann::ordered_json step_json(const Comm& comm, const PlannedStep& step, const PlanSamples& samples,
                                 const std::string& model);

}  // namespace relibra
