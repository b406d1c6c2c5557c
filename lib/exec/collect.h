#pragma once
// The routes that an execution needs, read from a dump: each process reads the rows of its own sources alone.
#include <span>
#include <vector>

#include "lib/exec/routes.h"
#include "lib/model/plan.h"
#include "lib/model/routing.h"

namespace relibra::exec {

/// Collective over the source's communicator. Routes of `ranks` (this process's, may be empty) in the
/// selected micro-batches and layers; gate weights are the dump's, or 1/K. Sequences lie where the plan says.
/// Ids are trusted: count_routing (lib/count) validates them.
std::vector<SourceRoutes> collect_routes(RoutingSource& source, const Plan& plan, const Selection& selection,
                                         std::span<const RankId> ranks);

}  // namespace relibra::exec
