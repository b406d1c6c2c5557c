#pragma once
// Planning of the steps of a running training job: each dump of a folder as soon as it is complete.
#include <functional>
#include <string>
#include <string_view>

#include "lib/comm/comm.h"
#include "lib/job/plan.h"

namespace relibra {

struct WatchOptions {
  std::string folder;        ///< where dumps appear
  std::string plans;         ///< folder for plans; empty: the same
  std::string status;        ///< empty: status.json in the folder for plans
  bool done_marker = false;  ///< a dump is complete by its marker (job/watch_inbox.h)
  double poll = 0.02;        ///< seconds between looks at the folder
  PlanOptions plan;          ///< with a time budget, a step that misses it keeps its homes and has no copies
  CountOptions count;
  std::string previous;  ///< plan before the first step; used only where no plan is there yet
  bool metrics = false;  ///< beside NAME.plan.h5 also NAME.metrics.json
  std::string model;     ///< for metrics: shape, for sizes in bytes; may be empty

  /// When to end, besides being asked to; zero: never.
  bool once = false;       ///< once nothing complete is left to plan
  std::int64_t steps = 0;  ///< after so many steps, planned or failed, of this run
  double idle_exit = 0;    ///< seconds without a step
};

/// What is said along the way, on every rank; only rank 0's is of use.
struct WatchVoice {
  std::function<void(const std::string& line)> say;     ///< for people: a step planned or skipped
  std::function<void(const std::string& line)> status;  ///< the line while waiting, often the same one
  Progress progress;
};

/// Collective. Plans every complete dump of the folder in step order, each with the plan written before it as
/// the previous one, until an option says so or `asked` is true on any rank between two steps. Idle ranks
/// sleep. A step that cannot be planned is said, remembered in the status and skipped until one of its files
/// changes.
///
/// A plan appears whole or not at all; a new call goes on where another one ended, however that happened: by
/// the plans that are there. Only one call at a time may look after a folder of plans: another one is refused
/// where the file system can tell (job/watch_lock.h).
///
/// Throws Fault::usage and Fault::input, agreed, for options, folders and previous plans that are wrong from
/// the start, and Fault::environment, agreed where it can be, for a disk or a network that fails at any time.
void watch(const Comm& comm, const WatchOptions& options, const std::function<bool()>& asked,
           const WatchVoice& voice);

}  // namespace relibra
