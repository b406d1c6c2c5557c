#pragma once
// Places of sequences: what the dump fixes is kept and checked against the options, the rest is chosen.
#include "lib/job/plan.h"
#include "lib/job/plan_cells.h"

namespace relibra {

/// Micro-batch and EP group of every sequence, and the source ranks where the dump fixes them. Local, the
/// same on every rank. Throws Fault::usage where options and dump contradict each other.
SequencePlaces place_before_reordering(const RoutingDump& dump, const PlanOptions& options);

/// Throws Fault::usage unless `previous` has the dump's layers and experts and the options' EP size.
void check_previous(const PreviousPlan& previous, const RoutingHeader& dump, const PlanOptions& options);

/// Throws Fault::usage for a value out of its range.
void check_options(const PlanOptions& options);

}  // namespace relibra
