#pragma once
// Clusters and models of the step-time model: by name, from JSON or TOML files, fitted to a measured run.
#include <nlohmann/json.hpp>
#include <string>

#include "lib/comm/comm.h"
#include "lib/cost/step_time.h"
#include "lib/model/routing.h"

namespace relibra {

/// Collective. A preset's name, or a JSON or TOML file (a name that ends in .json or .toml) with the fields
/// of cluster_json; those it leaves out are of the preset that its "base" names. Throws Fault::usage for an
/// unknown name, Fault::input for a file that is wrong, agreed.
Cluster read_cluster(const Comm& comm, const std::string& name_or_file);

/// Collective. A model preset's name, or a file likewise with the fields of model_json. Where
/// `attention_flops` is left out it is that of the model's published configuration at the mean length of the
/// dump's sequences, as in execution (docs/execution.md).
LayerModel read_layer_model(const Comm& comm, const std::string& name_or_file, const RoutingDump& dump);

/// Collective. `cluster` with what the result of a `relibra run --json` tells: experts' curve, attention,
/// and, where ranks exchanged anything, bandwidths. Throws Fault::input, agreed.
struct Calibration {
  Cluster cluster;
  double error = 0;  ///< of the fitted compute times, sum of absolute differences over sum
  std::int64_t samples = 0;
};
Calibration calibrate(const Comm& comm, const Cluster& cluster, const std::string& path);

nlohmann::ordered_json cluster_json(const Cluster& cluster);
nlohmann::ordered_json model_json(const LayerModel& model);

}  // namespace relibra
