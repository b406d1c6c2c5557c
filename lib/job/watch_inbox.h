#pragma once
// The dumps of a watched folder: which steps are complete, which of them are still to be planned.
#include <map>
#include <string>
#include <vector>

#include "lib/base/timer.h"
#include "lib/job/watch_status.h"

namespace relibra {

/// A complete step that is to be planned.
struct WatchJob {
  StepRecord record;     ///< step, plan and files
  Timer since_complete;  ///< from the look that found it so
};

/// One process looks after it; everything here is local.
///
/// A dump is a regular file NAME.h5 that does not begin with a dot nor end in ".plan.h5"; it is complete once
/// it is there, or, with `done_marker`, once NAME.done or NAME.h5.done is there too. A dump in one file gives
/// NAME.plan.h5, a step in several shards plan_path_in(..., step); shards count once all are complete. A file
/// that cannot be read is a step of its own: planning it will say why.
class WatchInbox {
 public:
  /// `records` of a run before. Those that failed by the options of that run are tried again.
  WatchInbox(std::string folder, std::string plans, bool done_marker, std::vector<StepRecord> records);

  /// Looks at the folder. A plan that is there without a record of it counts as planned. Returns how many
  /// such plans were found. Throws Fault::environment where the folder cannot be listed.
  std::int64_t scan();

  /// By step, as of the last scan: complete and neither planned nor failed in their present state. Steps that
  /// their file does not tell come first.
  const std::vector<WatchJob>& pending() const { return pending_; }
  std::vector<IncompleteStep> incomplete() const { return incomplete_; }

  /// A step has been dealt with, until one of its files changes.
  void settle(StepRecord record);
  /// By step; those whose files are still there.
  std::vector<StepRecord> records() const;

 private:
  using Files = std::vector<WatchedFile>;

  void look();
  bool is_settled(const std::string& plan, const Files& files);
  void add_pending(const std::string& plan, const Files& files);
  void forget_vanished();

  std::string folder_, plans_;
  bool done_marker_;
  std::int64_t found_ = 0;
  std::map<std::string, WatchedFile> files_;   ///< complete ones, by name
  std::map<std::string, StepRecord> records_;  ///< by plan
  std::map<std::string, WatchJob> waiting_;    ///< pending before this scan, by plan
  std::vector<WatchJob> pending_;
  std::vector<IncompleteStep> incomplete_;
};

}  // namespace relibra
