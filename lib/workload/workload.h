#pragma once
// Synthetic routing with the statistics of RL rollouts: the reference workload of docs/planning.md, as a
// RoutingSource.
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/model/routing.h"

namespace relibra {

/// A model's shape, by name ("qwen3-235b").
struct ModelPreset {
  std::string_view name, model;
  int layers, first_layer, experts, top_k;
  int hidden, intermediate;  ///< H and the expert's I, for execution and the step-time model
};

std::span<const ModelPreset> model_presets();
/// Throws Fault::usage that lists the names.
const ModelPreset& model_preset(std::string_view name);

}  // namespace relibra
