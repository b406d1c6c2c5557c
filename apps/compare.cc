// relibra compare: policies side by side on one dump, with a modelled step time.
#include <iostream>
#include <memory>

#include "apps/command.h"
#include "apps/options.h"
#include "apps/terminal.h"
#include "io/dump_file.h"
#include "lib/comm/agree.h"
#include "lib/job/compare_report.h"
#include "lib/job/plan_files.h"
#include "lib/policy/policy.h"

namespace relibra {
namespace {

struct CompareArguments {
  std::vector<std::string> dumps, policies, clusters{"hopper-ib400"}, axes;
  std::vector<double> network{1};
  std::string model, calibrate, previous;
  CompareOptions options;
  CountOptions count;
  bool json = false, csv = false;
};

/// Every cluster at every factor of its network.
std::vector<Cluster> clusters_of(const Comm& comm, const CompareArguments& arguments,
                                 std::optional<Calibration>& calibration) {
  std::vector<Cluster> clusters;
  for (const std::string& name : arguments.clusters) {
    Cluster cluster = read_cluster(comm, name);
    if (!arguments.calibrate.empty() && clusters.empty()) {
      calibration = calibrate(comm, cluster, arguments.calibrate);
      cluster = calibration->cluster;
    }
    for (const double factor : arguments.network) {
      Cluster& scaled = clusters.emplace_back(cluster);
      scaled.network *= factor;
      char text[48];
      std::snprintf(text, sizeof text, ", network x %g", factor);
      if (factor != 1) scaled.name += text;
    }
  }
  return clusters;
}

int compare(const Comm& comm, const CompareArguments& arguments) {
  Terminal terminal(comm);
  const Progress progress = [&](std::string_view phase, double done) { terminal.progress(phase, done); };
  CompareOptions options = arguments.options;
  if (std::find(arguments.policies.begin(), arguments.policies.end(), "all") == arguments.policies.end())
    options.policies = arguments.policies;
  std::vector<SweepAxis> axes;
  agreed(comm, [&] {
    for (const std::string& axis : arguments.axes) axes.push_back(parse_sweep_axis(axis));
  });
  std::optional<Calibration> calibration;
  options.clusters = clusters_of(comm, arguments, calibration);
  if (!arguments.previous.empty()) options.previous = read_previous(comm, arguments.previous);
  const auto source = io::open_dump(comm, arguments.dumps);
  options.model = read_layer_model(comm, arguments.model, source->dump());
  const CountedRouting counted = count_routing(comm, *source, arguments.count);
  CompareReport report{source->dump(), counted.digest, options, calibration, {}, !axes.empty()};
  report.comparisons = compare_policies(comm, *source, counted, options, axes, progress);
  if (!comm.root()) return 0;
  if (arguments.json)
    std::cout << compare_json(report).dump(2) << '\n';
  else if (arguments.csv)
    print_csv(std::cout, report);
  else
    print_compare(std::cout, report);
  return 0;
}

void add_what(CLI::App& app, CompareArguments& arguments) {
  std::vector<std::string> names{"all", "balanced"};
  for (const PolicyEntry& policy : policies()) names.emplace_back(policy.name);
  app.add_option("--policies", arguments.policies,
                 "which, as in relibra,greedy; static and balanced always come along (all)")
      ->delimiter(',')
      ->check(CLI::IsMember(names))
      ->type_name("NAME,...");
  auto* previous = app.add_option("--previous", arguments.previous,
                                  "plan of the step before, of every policy; else experts start in blocks");
  app.add_option("--sweep", arguments.axes,
                 "go through values, as in ep-size=8,16,32 replica-slots=0,1,2,4; also ep-groups and "
                 "gpus-per-node")
      ->excludes(previous)
      ->type_name("OPTION=VALUES ...");
}

void add_time_model(CLI::App& app, CompareArguments& arguments) {
  std::string names;
  for (const Cluster& preset : cluster_presets()) names += (names.empty() ? "" : ", ") + preset.name;
  app.add_option("--cluster", arguments.clusters,
                 names + ", or JSON or TOML files (docs/compare.md); the first goes into the table")
      ->delimiter(',')
      ->type_name("NAME,...")
      ->capture_default_str();
  app.add_option("--network", arguments.network, "also with this many times the network, as in 0.5,1,2")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->type_name("FACTOR,...");
  app.add_option("--model", arguments.model,
                 "sizes of the model: a preset of `synth`, or a JSON or TOML file")
      ->required()
      ->type_name("NAME");
  app.add_option("--calibrate", arguments.calibrate,
                 "fit the first cluster to a result of `relibra run --json`")
      ->type_name("FILE");
  app.add_option("--token-factor", arguments.options.time.token_factor,
                 "tokens that one of the dump stands for, as 16 for a dump of `synth --scale 1/16`")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_share(app, "--overlap", arguments.options.time.overlap,
            "share of attention beside which weights of copies travel (default 1)");
}

Run declare(CLI::App& app) {
  const auto arguments = std::make_shared<CompareArguments>();
  add_dumps(app, arguments->dumps);
  add_topology(app, arguments->options.plan.topology);
  add_decisions(app, arguments->options.plan, arguments->count);
  add_what(app, *arguments);
  add_time_model(app, *arguments);
  add_json(app, arguments->json);
  app.add_flag("--csv", arguments->csv, "print comma-separated values instead of text")->excludes("--json");
  return [arguments](const Comm& comm) { return compare(comm, *arguments); };
}

}  // namespace

extern const Command kCompareCommand = {
    "compare", "compare policies on one dump: skew, traffic, copies, modelled step time",
    "mpirun -n 4 relibra compare step7.h5 --ep-size 32 --gpus-per-node 8 --model qwen3-235b", declare};

}  // namespace relibra
