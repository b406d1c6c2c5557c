#include "apps/options.h"

#include "lib/base/units.h"
#include "lib/planning/copy_graph.h"
#include "lib/policy/policy.h"
#include "lib/workload/workload.h"

namespace relibra {
namespace {

/// An option whose text is read by one of the parsers of lib/base/units.h.
template <class T, class Parse>
CLI::Option* add_parsed(CLI::App& app, const std::string& names, T& value, const std::string& help,
                        const char* type, Parse parse) {
  auto* option = app.add_option_function<std::string>(
      names,
      [&value, names, parse](const std::string& text) {
        try {
          value = parse(text, names);
        } catch (const Error& error) {
          throw CLI::ValidationError(error.what());
        }
      },
      help);
  return option->type_name(type);
}

std::string policy_help() {
  std::string help = "how to plan:";
  for (const PolicyEntry& policy : policies())
    help += "\n  " + std::string(policy.name) + ": " + std::string(policy.summary);
  return help;
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const PolicyEntry& policy : policies()) names.emplace_back(policy.name);
  return names;
}

void add_policy_details(CLI::App& app, PolicyDetails& details) {
  app.add_option(
         "--expert-groups", details.expert_groups,
         "eplb, lplb: runs of experts that stay on one node where they divide by nodes; else, and for 1, "
         "experts go anywhere")
      ->capture_default_str();
  std::vector<std::string> graphs{"auto"};
  for (const std::string_view name : copy_graph_names()) graphs.emplace_back(name);
  app.add_option("--lplb-graph", details.lplb_graph, "lplb: which ranks copy from which")
      ->check(CLI::IsMember(graphs))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--ultraep-domain",
         [&details](const std::string& name) {
           details.ultraep_domain = name == "node" ? ReplicaDomain::node : ReplicaDomain::group;
         },
         "ultraep: copies in the home's node, or anywhere in its EP group (default)")
      ->check(CLI::IsMember({"node", "group"}));
  app.add_option(
      "--push-price", details.push_price,
      "relibra-hybrid: price of a copy on another node, in assignments of the slowest rank (default "
      "8000)");
  app.add_option(
      "--push-shadow", details.push_shadow,
      "relibra-hybrid: what of that attention hides, over a rank's mean assignments (default 0.5)");
  app.add_option("--far-price", details.far_price,
                 "relibra-hybrid: price of an assignment on another node than its token's, over the ranks "
                 "(default 0)");
  add_size(app, "--ultraep-floor", details.ultraep_floor,
           "ultraep: fewest tokens of a copy in the second form of its search (default 1024)");
}

}  // namespace

CLI::Option* add_size(CLI::App& app, const std::string& names, std::int64_t& value, const std::string& help) {
  return add_parsed(app, names, value, help, "SIZE", parse_size);
}

CLI::Option* add_seconds(CLI::App& app, const std::string& names, double& value, const std::string& help) {
  return add_parsed(app, names, value, help, "TIME", parse_seconds);
}

CLI::Option* add_share(CLI::App& app, const std::string& names, double& value, const std::string& help) {
  return add_parsed(app, names, value, help, "SHARE", parse_share);
}

CLI::Option* add_share(CLI::App& app, const std::string& names, std::optional<double>& value,
                       const std::string& help) {
  return add_parsed(app, names, value, help, "SHARE", parse_share);
}

CLI::Option* add_dumps(CLI::App& app, std::vector<std::string>& files) {
  return app.add_option("DUMP", files, "routing dumps: the shards of a step in any order")->required();
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelPreset& preset : model_presets()) names.emplace_back(preset.name);
  return names;
}

CLI::Option* add_model(CLI::App& app, std::string& name) {
  return app.add_option("--model", name, "shape of the model, for sizes in bytes")
      ->check(CLI::IsMember(model_names()))
      ->type_name("NAME");
}

CLI::Option* add_json(CLI::App& app, bool& json) {
  return app.add_flag("--json", json, "print one JSON document instead of text");
}

void add_topology(CLI::App& app, Topology& topology) {
  app.add_option("--ep-size", topology.ep_size, "ranks in an expert-parallel group, P")->required();
  app.add_option("--gpus-per-node", topology.gpus_per_node,
                 "ranks joined by NVLink, G; divides P or is divided by it")
      ->required();
  app.add_option("--ep-groups", topology.ep_groups, "expert-parallel groups, D")->capture_default_str();
}

void add_decisions(CLI::App& app, PlanOptions& options, CountOptions& count) {
  app.add_option("--replica-slots", options.replica_slots, "spare expert slots a rank, V")
      ->capture_default_str();
  add_policy_details(app, options.details);
  auto* by_number = app.add_option("--micro-batches", options.pack.micro_batches,
                                   "micro-batches to form where the dump has none, M");
  add_size(app, "--tokens-per-micro-batch", options.pack.tokens_per_micro_batch,
           "form them by this many tokens a source rank instead")
      ->excludes(by_number);
  app.add_flag("--repack", options.repack,
               "then swap sequences of like length between them, so that nodes are evener in each");
  add_share(app, "--tolerance", options.tolerance,
            "accept a cell this much slower than its bound, to save copies (default 1%)");
  app.add_option("--max-fan-out", options.max_fan_out, "copies one home may send in a cell; 0: no limit")
      ->capture_default_str();
  add_size(app, "--effort", options.effort, "search moves a layer (default 100 000)");
  app.add_option("--seed", options.seed, "of the search")->capture_default_str();
  app.add_option("--move-cost", options.move_cost,
                 "with a plan before: price of moving an expert, in assignments of the slowest rank (default "
                 "18667: 14 bytes a parameter at 50 GB/s against 400 TFLOP/s)");
  add_share(app, "--max-missing", count.max_missing, "stop where more routes are missing (default 5%)");
}

void add_planning(CLI::App& app, PlanOptions& options, CountOptions& count) {
  add_topology(app, options.topology);
  app.add_option("--policy", options.policy, policy_help())
      ->check(CLI::IsMember(policy_names()))
      ->type_name("NAME")
      ->capture_default_str();
  add_decisions(app, options, count);
  add_seconds(app, "--time-budget", options.time_budget,
              "search as long as planning fits into this time after counting; the moves made are in the plan")
      ->excludes("--effort");
  app.add_flag_callback(
      "--no-transfers", [&options] { options.transfers = false; }, "leave /transfer out of the plan");
}

}  // namespace relibra
