#pragma once
// Planning from files to files: what `relibra plan` and `relibra watch` do with a step.
#include <memory>
#include <string>
#include <vector>

#include "lib/job/plan.h"

namespace relibra {

/// One step planned and written, still in memory for whoever goes on from it.
struct PlannedStep {
  std::string path;                       ///< of the plan file
  std::unique_ptr<RoutingSource> source;  ///< the dump, open
  CountedRouting counted;
  PlanResult result;            ///< phases from "open" to "write"
  std::int64_t bytes_read = 0;  ///< of all ranks, while counting
};

/// Collective. Opens the shards of one step, counts, plans, writes the plan to `path`. `previous` may be
/// null. Throws Fault::usage and Fault::input agreed; a plan file is there as a whole or not at all.
PlannedStep plan_dump(const Comm& comm, const std::vector<std::string>& files, const std::string& path,
                      const PlanOptions& options, const CountOptions& count, const PreviousPlan* previous,
                      const Progress& progress);

/// The files of one step.
struct StepFiles {
  std::int64_t step = 0;
  std::vector<std::string> files;
};

/// Collective. Files grouped by their step, in step order.
std::vector<StepFiles> group_by_step(const Comm& comm, const std::vector<std::string>& files);

/// "OUT/step-000012.plan.h5": the name of a step's plan in a folder.
std::string plan_path_in(const std::string& folder, std::int64_t step);

/// Collective. Makes the folder unless it is there. Throws Fault::environment, agreed.
void make_folder(const Comm& comm, const std::string& folder);

/// Collective. Where experts are after the plan in this file.
PreviousPlan read_previous(const Comm& comm, const std::string& path);

}  // namespace relibra
