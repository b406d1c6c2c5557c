#pragma once
// Options that several subcommands share, each declared once: name, help text, and the field it fills.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/count/count.h"
#include "lib/job/plan.h"

namespace relibra {

/// "128M" into a count, "5s" into seconds, "1%" into a share; the default shown is `shown`.
CLI::Option* add_size(CLI::App& app, const std::string& names, std::int64_t& value, const std::string& help);
CLI::Option* add_seconds(CLI::App& app, const std::string& names, double& value, const std::string& help);
CLI::Option* add_share(CLI::App& app, const std::string& names, double& value, const std::string& help);
CLI::Option* add_share(CLI::App& app, const std::string& names, std::optional<double>& value,
                       const std::string& help);

/// DUMP...: one file, or the shards of a step.
CLI::Option* add_dumps(CLI::App& app, std::vector<std::string>& files);
/// --model: the shape of a known model, for sizes in bytes.
CLI::Option* add_model(CLI::App& app, std::string& name);
/// --preset, --model: names of models.
std::vector<std::string> model_names();
CLI::Option* add_json(CLI::App& app, bool& json);

/// --ep-size, --ep-groups, --gpus-per-node.
void add_topology(CLI::App& app, Topology& topology);
/// What a plan depends on besides topology and policy: slots, micro-batches, tolerance, search.
void add_decisions(CLI::App& app, PlanOptions& options, CountOptions& count);
/// Everything that a plan depends on.
void add_planning(CLI::App& app, PlanOptions& options, CountOptions& count);

}  // namespace relibra
