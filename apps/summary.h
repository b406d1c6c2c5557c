#pragma once
// A plan in a screenful of text.
#include <ostream>
#include <string>

#include "lib/cost/metrics.h"
#include "lib/job/plan_files.h"

namespace relibra {

/// Shape, before and after, copies, moves. Traffic and the replica bound are shown where `samples` has them.
void print_plan(std::ostream& out, const std::string& path, const Plan& plan, const PlanSamples& samples);

/// The same, and seconds a phase.
void print_summary(std::ostream& out, const PlannedStep& step, const PlanSamples& samples);

}  // namespace relibra
