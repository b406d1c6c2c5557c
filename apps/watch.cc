// relibra watch: plans each dump of a folder as it is completed.
#include <memory>

#include "apps/command.h"
#include "apps/options.h"
#include "apps/terminal.h"
#include "lib/job/watch.h"

namespace relibra {
namespace {

int watch_folder(const Comm& comm, const WatchOptions& options) {
  Terminal terminal(comm);
  watch(comm, options, has_notice,
        {.say = [&](const std::string& line) { terminal.say(line); },
         .status = [&](const std::string& line) { terminal.status(line); },
         .progress = [&](std::string_view phase, double done) { terminal.progress(phase, done); }});
  return 0;
}

void add_end(CLI::App& app, WatchOptions& options) {
  app.add_flag("--once", options.once, "end once nothing complete is left to plan");
  app.add_option("--steps", options.steps, "end after so many steps, planned or skipped; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  add_seconds(app, "--idle-exit", options.idle_exit, "end after this time without a step");
}

Run declare(CLI::App& app) {
  const auto options = std::make_shared<WatchOptions>();
  app.add_option("DIR", options->folder, "folder in which dumps appear, each renamed to its name once whole")
      ->required();
  app.add_option("-o,--out", options->plans, "folder for plans; beside the dumps");
  app.add_flag("--done-marker", options->done_marker,
               "a dump NAME.h5 is complete once NAME.done (or NAME.h5.done) is there too");
  app.add_option("--status", options->status, "JSON file for others to read; status.json beside the plans");
  add_seconds(app, "--poll", options->poll, "time between looks at the folder (default 20ms)");
  add_end(app, *options);
  add_planning(app, options->plan, options->count);
  app.add_option("--previous", options->previous, "plan before the first step, where no plan is there yet");
  app.add_flag("--metrics", options->metrics,
               "beside each NAME.plan.h5 write NAME.metrics.json, recounted from the dump");
  add_model(app, options->model);
  return [options](const Comm& comm) { return watch_folder(comm, *options); };
}

}  // namespace

extern const Command kWatchCommand = {
    "watch", "plan each dump of a folder as it is completed, warm, until told to end",
    "srun relibra watch /scratch/run7/dumps --ep-size 32 --gpus-per-node 8 --micro-batches 32 "
    "--time-budget 5s",
    declare};

}  // namespace relibra
