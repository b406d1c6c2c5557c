// relibra run: carries out a plan, verifies and measures it.
#include <memory>

#include "apps/command.h"
#include "apps/options.h"
#include "apps/run_options.h"
#include "apps/terminal.h"
#include "lib/job/plan_files.h"

namespace relibra {
namespace {

struct RunCommandArguments {
  std::string plan;
  std::vector<std::string> dumps;
  CountOptions count;
  RunArguments run;
  std::string previous;
  bool json = false;
};

int run(const Comm& comm, const RunCommandArguments& arguments) {
  Terminal terminal(comm);
  RunOptions options = arguments.run.options;
  options.trace = !arguments.run.trace.empty();
  if (!arguments.previous.empty()) options.previous = read_previous(comm, arguments.previous);
  const RunResult result =
      run_plan_file(comm, arguments.plan, arguments.dumps, options, arguments.count, voice_of(terminal));
  return report_run(comm, arguments.run, result, arguments.json ? RunOutput::json : RunOutput::text);
}

Run declare(CLI::App& app) {
  const auto arguments = std::make_shared<RunCommandArguments>();
  app.add_option("PLAN", arguments->plan, "plan file")->required();
  add_dumps(app, arguments->dumps);
  add_model(app, arguments->run.options.model);
  add_run(app, arguments->run);
  app.add_option("--micro-batches", arguments->run.options.micro_batches,
                 "micro-batches to execute, likewise");
  app.add_option("--max-fan-out,--relay-past", arguments->run.options.relay_past,
                 "weights that a home sends in a cell before copies pass them on; 0: no limit")
      ->capture_default_str();
  app.add_option("--previous", arguments->previous,
                 "plan of the step before: first move experts, weights and both moments, from its homes");
  app.add_flag("--dry-run", arguments->run.options.dry_run,
               "print the schedule and the memory it needs, no more");
  app.add_option("--seed", arguments->run.options.seed, "of inputs and weights")->capture_default_str();
  add_json(app, arguments->json);
  add_share(app, "--max-missing", arguments->count.max_missing,
            "stop where more routes are missing (default 5%)");
  return [arguments](const Comm& comm) { return run(comm, *arguments); };
}

}  // namespace

extern const Command kRunCommand = {
    "run", "carry out a plan: forward and backward, verified and measured",
    "mpirun -n 4 relibra run step7.plan.h5 step7.h5 --hidden 256 --intermediate 512 --verify --baseline",
    declare};

}  // namespace relibra
