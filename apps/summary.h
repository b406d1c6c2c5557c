#pragma once
// A plan in a screenful of text.
#include <ostream>

#include "lib/cost/metrics.h"
#include "lib/job/plan_files.h"

namespace relibra {

/// Before and after, moves, seconds a phase. Traffic is shown where `samples` has it.
void print_summary(std::ostream& out, const PlannedStep& step, const PlanSamples& samples);

}  // namespace relibra
