#pragma once
// Every rule of docs/formats.md for a plan, checked against its dump by a recount. Shares no code with the
// planners.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/job/metrics.h"

namespace relibra {

/// What is known about the plan before: it fixes where experts were and in which slots.
struct PreviousKnown {
  enum class Kind { unknown, none, plan } kind = Kind::unknown;
  const Plan* plan = nullptr;  ///< for Kind::plan
};

struct CheckOptions {
  bool require_transfers = true;  ///< a plan without /transfer is broken
  PreviousKnown previous = {};
  RecountOptions recount = {};
};

/// The same on every rank and for any number of ranks.
struct CheckReport {
  std::int64_t broken_count = 0;
  std::vector<std::string> broken;  ///< the first 50 broken rules with their place
  RecountTotals totals;             ///< empty where the plan was too broken to recount
  PlanSamples samples;              ///< of micro-batches whose lists are in range

  bool valid() const { return broken_count == 0; }
};

/// Collective. Broken rules are reported, not thrown; throws Fault::input, agreed, where a file can't be
/// read.
CheckReport check_plan(const Comm& comm, RoutingSource& source, const PlanView& view,
                       const CheckOptions& options);

/// {"valid", "broken_count", "broken", "plan": header_json, "sequences", "assignments", "missing",
///  "summary": summary_json}.
nlohmann::ordered_json check_json(const Plan& plan, const CheckReport& report);

}  // namespace relibra
