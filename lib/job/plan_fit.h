#pragma once
// Whether a plan belongs to a dump. Local.
#include <string>

#include "lib/model/plan.h"
#include "lib/model/routing.h"

namespace relibra {

/// Throws Fault::input where step, E, K, L or S differ: cheap, and enough to index one by the other.
void require_fit(const RoutingDump& dump, const Plan& plan);

/// Throws Fault::input naming `where` unless the plan was made from routing of this digest.
void require_digest(const std::string& where, const Plan& plan, const std::string& digest);

}  // namespace relibra
