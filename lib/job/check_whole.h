#pragma once
// Rules of docs/formats.md about a plan as a whole: header, sequences, placement. Local.
#include "lib/job/check.h"
#include "lib/job/check_broken.h"

namespace relibra {

/// Attributes against the dump's and against each other. Returns whether the shapes are the dump's, so that
/// the other rules make sense.
bool check_header(const RoutingDump& dump, const PlanView& view, const CheckOptions& options,
                  BrokenRules& broken);

/// Micro-batch and source rank of every sequence. Returns whether all are in range.
bool check_sequences(const RoutingDump& dump, const Plan& plan, BrokenRules& broken);

/// Homes, slots, moves, and what the plan before says of them. Returns whether homes are in range.
bool check_placement(const PlanView& view, const PreviousKnown& previous, BrokenRules& broken);

}  // namespace relibra
