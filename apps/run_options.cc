#include "apps/run_options.h"

#include <iostream>
#include <map>

#include "apps/options.h"
#include "lib/job/run_report.h"
#include "lib/job/write_text.h"

namespace relibra {
namespace {

const std::map<std::string, exec::BackendChoice> kBackends = {{"auto", exec::BackendChoice::automatic},
                                                              {"cpu", exec::BackendChoice::cpu},
                                                              {"cuda", exec::BackendChoice::cuda}};
const std::map<std::string, kernels::Type> kTypes = {{"float32", kernels::Type::float32},
                                                     {"bfloat16", kernels::Type::bfloat16}};
const std::map<std::string, bool> kSwitch = {{"on", true}, {"off", false}};

/// An option that takes one of some names.
template <class T>
void add_choice(CLI::App& app, const std::string& name, T& value, const std::map<std::string, T>& choices,
                const std::string& help) {
  app.add_option_function<std::string>(
         name, [&value, &choices](const std::string& text) { value = choices.at(text); }, help)
      ->check(CLI::IsMember(choices))
      ->type_name("NAME");
}

void add_what(CLI::App& app, RunOptions& options) {
  app.add_option("--hidden", options.hidden, "hidden size H, before the model's")->check(CLI::PositiveNumber);
  app.add_option("--intermediate", options.intermediate,
                 "intermediate size I of an expert, before the model's")
      ->check(CLI::PositiveNumber);
  add_choice(app, "--dtype", options.type, kTypes,
             "of weights and activations (default float32); gradients of weights are float32");
  app.add_option("--layers", options.layers,
                 "routed layers to execute, counted from 0, as in 0,7 or 0-3; all");
  add_choice(app, "--attention", options.attention, kSwitch,
             "a GEMM of attention's operations before each MoE layer (default on)");
}

void add_how(CLI::App& app, RunOptions& options) {
  add_choice(app, "--backend", options.backend, kBackends,
             "auto, the default, takes CUDA where a device answers");
  app.add_flag("--verify", options.verify,
               "compare a step with a reference in double that knows no placement");
  app.add_flag("--baseline", options.baseline,
               "measure static placement and an ideal balance in the same run");
  app.add_flag("--emulate", options.emulate, "fewer processes than ranks carry them in turn: compute only");
  app.add_flag_callback(
      "--no-timing", [&options] { options.time = false; }, "do not measure");
  app.add_option("--repeats", options.repeat.repeats, "steps measured; medians are reported")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warm-up", options.repeat.warm_up, "steps before")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_size(app, "--memory-limit", options.memory_limit,
           "stop where a rank needs more (default: what is free)");
  add_seconds(app, "--timeout", options.timeout_seconds,
              "a transfer that stands still that long has failed (60s)");
}

}  // namespace

void add_run(CLI::App& app, RunArguments& arguments) {
  add_what(app, arguments.options);
  add_how(app, arguments.options);
  app.add_option("--trace", arguments.trace, "file for a timeline in Chrome trace format, for Perfetto");
}

RunVoice voice_of(Terminal& terminal) {
  return {[&](const std::string& line) { terminal.say(line); },
          [&](std::string_view phase, double done) { terminal.progress(phase, done); }};
}

int report_run(const Comm& comm, const RunArguments& arguments, const RunResult& result, RunOutput output) {
  if (!arguments.trace.empty())
    write_text(comm, arguments.trace, comm.root() ? run_trace(result).dump() + "\n" : std::string());
  if (comm.root() && output == RunOutput::json) std::cout << run_json(result).dump(2) << '\n';
  if (comm.root() && output == RunOutput::text) print_run(std::cout, result);
  return run_passed(result) ? 0 : static_cast<int>(Fault::check);
}

}  // namespace relibra
