// relibra plan: reads the dumps of one or several steps and writes their plans.
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/options.h"
#include "apps/run_options.h"
#include "apps/summary.h"
#include "apps/terminal.h"
#include "io/dump_file.h"
#include "lib/cost/prices.h"
#include "lib/job/cost_files.h"
#include "lib/job/plan_files.h"
#include "lib/job/run_report.h"
#include "lib/job/step_report.h"
#include "lib/job/write_text.h"

namespace relibra {
namespace {

struct PlanArguments {
  std::vector<std::string> dumps;
  std::string out, previous, metrics, model, cluster;
  PlanOptions options;
  CountOptions count;
  bool json = false;
  bool execute = false;
  RunArguments run;
};

/// A folder gets a plan a step.
bool names_folder(const Comm& comm, const std::string& out, std::size_t steps) {
  int folder = steps > 1 || out.ends_with('/') || std::filesystem::is_directory(out);
  comm.broadcast(folder);
  return folder != 0;
}

/// Collective. Moves and pushes at the prices of the cluster, but for those that were given.
PlanOptions priced(const Comm& comm, const PlanArguments& arguments, const StepFiles& step) {
  PlanOptions options = arguments.options;
  const auto source = io::open_dump(comm, step.files);
  const LayerModel model = read_layer_model(comm, arguments.model, source->dump());
  const Prices prices = prices_of(read_cluster(comm, arguments.cluster), model, {}, options.topology,
                                  source->dump().header.top_k);
  options.move_cost = options.move_cost.value_or(prices.move);
  options.details.push_price = options.details.push_price.value_or(prices.push);
  options.details.far_price = options.details.far_price.value_or(prices.far);
  options.details.push_shadow = options.details.push_shadow.value_or(prices.shadow);
  return options;
}

/// Said before an hour of planning rather than after it.
void check_execution(const Comm& comm, const PlanArguments& arguments) {
  const int world = arguments.options.topology.world();
  if (!arguments.execute || comm.size() == world || (arguments.run.options.emulate && comm.size() < world))
    return;
  throw Error(Fault::usage, {.where = "--execute",
                             .expected = std::to_string(world) + " processes, --ep-size times --ep-groups",
                             .found = std::to_string(comm.size()),
                             .advice = "start one process a rank, or add --emulate (compute only)"})
      .as_agreed();
}

/// Collective. The execution phase with the schedule in memory.
RunResult execute(const Comm& comm, PlannedStep& step, const std::optional<PreviousPlan>& previous,
                  const PlanArguments& arguments, Terminal& terminal) {
  RunOptions options = arguments.run.options;
  options.model = arguments.model;
  options.trace = !arguments.run.trace.empty();
  if (!options.emulate) options.previous = previous;
  return run_plan(
      comm, *step.source, step.result.plan,
      [&](Range range) { return gather_cells(comm, step.result.mine, range); }, options, voice_of(terminal));
}

int plan(const Comm& comm, const PlanArguments& arguments) {
  check_execution(comm, arguments);
  Terminal terminal(comm);
  const Progress progress = [&](std::string_view phase, double done) { terminal.progress(phase, done); };
  const auto steps = group_by_step(comm, arguments.dumps);
  const bool folder = names_folder(comm, arguments.out, steps.size());
  if (folder) make_folder(comm, arguments.out);
  const PlanOptions options =
      arguments.cluster.empty() ? arguments.options : priced(comm, arguments, steps.front());
  std::optional<PreviousPlan> previous;
  if (!arguments.previous.empty()) previous = read_previous(comm, arguments.previous);

  int status = 0;
  nlohmann::ordered_json documents = nlohmann::ordered_json::array();
  for (const StepFiles& step : steps) {
    const std::string path = folder ? plan_path_in(arguments.out, step.step) : arguments.out;
    PlannedStep planned = plan_dump(comm, step.files, path, options, arguments.count,
                                    previous ? &*previous : nullptr, progress);
    for (const std::string& remark : remarks_on(planned.counted.findings)) terminal.say(remark);
    const PlanSamples samples = measure_step(comm, planned, !arguments.metrics.empty(), progress);
    if (comm.root()) {
      documents.push_back(step_json(comm, planned, samples, arguments.model));
      if (!arguments.json) print_summary(std::cout, planned, samples);
    }
    if (arguments.execute) {
      const RunResult result = execute(comm, planned, previous, arguments, terminal);
      if (comm.root()) documents.back()["execution"] = run_json(result);
      status = std::max(status, report_run(comm, arguments.run, result,
                                           arguments.json ? RunOutput::none : RunOutput::text));
    }
    previous = previous_of(planned.result.plan);
  }
  const nlohmann::ordered_json& whole = steps.size() == 1 && comm.root() ? documents[0] : documents;
  if (!arguments.metrics.empty()) write_text(comm, arguments.metrics, whole.dump(2) + "\n");
  if (arguments.json && comm.root()) std::cout << whole.dump(2) << '\n';
  return status;
}

Run declare(CLI::App& app) {
  const auto arguments = std::make_shared<PlanArguments>();
  add_dumps(app, arguments->dumps);
  app.add_option("-o,--output", arguments->out,
                 "plan file; for several steps a folder, which gets step-NNNNNN.plan.h5 for each")
      ->required();
  add_planning(app, arguments->options, arguments->count);
  app.add_option("--previous", arguments->previous,
                 "plan of the step before: experts move only where it pays");
  app.add_option("--metrics", arguments->metrics,
                 "JSON file of all measures, recounted from the dump; for several steps a list");
  auto* model = add_model(app, arguments->model);
  app.add_option("--cluster", arguments->cluster,
                 "price moves and pushes as on it, for --model: a name or file, as in `compare`")
      ->needs(model)
      ->type_name("NAME");
  add_json(app, arguments->json);
  app.add_flag("--execute", arguments->execute,
               "then carry the plan out in the same job, one process a rank, with the options of `run`:");
  add_run(app, arguments->run);
  app.add_option("--run-micro-batches", arguments->run.options.micro_batches,
                 "micro-batches to execute, as in 0,7 or 0-3; all");
  app.add_option("--relay-past", arguments->run.options.relay_past,
                 "weights that a home sends in a cell before copies pass them on; 0: no limit")
      ->capture_default_str();
  app.add_option("--run-seed", arguments->run.options.seed, "of inputs and weights")->capture_default_str();
  return [arguments](const Comm& comm) { return plan(comm, *arguments); };
}

}  // namespace

extern const Command kPlanCommand = {
    "plan", "plan the training of one or several steps",
    "mpirun -n 4 relibra plan step7.h5 -o step7.plan.h5 --ep-size 32 --gpus-per-node 8", declare};

}  // namespace relibra
