#pragma once
// What the step-time model looks at, out of a plan that is recounted against its dump.
#include "lib/cost/metrics.h"
#include "lib/cost/step_time.h"
#include "lib/job/recount.h"

namespace relibra {

struct MeasuredWork {
  PlanSamples samples;
  StepWork work;
};

/// Collective: samples and work of the whole plan, on every rank, sorted. The plan must be valid.
MeasuredWork measure_work(const Comm& comm, RoutingSource& source, const PlanView& view,
                          const RecountOptions& options);

}  // namespace relibra
