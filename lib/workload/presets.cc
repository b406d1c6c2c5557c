#include "lib/base/error.h"
#include "lib/workload/workload.h"

namespace relibra {
namespace {

// Shapes as in the models' published configurations.
constexpr ModelPreset kPresets[] = {
    // name, model, routed layers, first routed block, experts, top-k, hidden, expert intermediate, shared
    // experts
    {"qwen3-30b", "Qwen3-30B-A3B", 48, 0, 128, 8, 2048, 768},
    {"qwen3-235b", "Qwen3-235B-A22B", 94, 0, 128, 8, 4096, 1536},
    {"glm4.5", "GLM-4.5", 89, 3, 160, 8, 5120, 1536, 1},
    {"glm4.5-air", "GLM-4.5-Air", 45, 1, 128, 8, 4096, 1408, 1},
    {"deepseek-v3", "DeepSeek-V3", 58, 3, 256, 8, 7168, 2048, 1},
    {"olmoe", "OLMoE-1B-7B", 16, 0, 64, 8, 2048, 1024},
    {"mixtral", "Mixtral-8x7B", 32, 0, 8, 2, 4096, 14336},
    {"tiny", "tiny", 4, 0, 16, 2, 64, 128},
};

}  // namespace

std::span<const ModelPreset> model_presets() {
  return kPresets;
}

const ModelPreset& model_preset(std::string_view name) {
  std::string names;
  for (const auto& preset : kPresets) {
    if (preset.name == name) return preset;
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
  }
  throw_usage({.where = "--preset", .expected = "one of " + names, .found = std::string(name)});
}

WorkloadOptions workload_options(const ModelPreset& preset) {
  WorkloadOptions options;
  options.model = preset.model;
  options.layers = preset.layers;
  options.first_layer = preset.first_layer;
  options.experts = preset.experts;
  options.top_k = preset.top_k;
  if (preset.name == "tiny") {  // seconds instead of minutes: 128 sequences of about 150 tokens
    options.sequences = 128;
    options.micro_batches = 8;
    options.scale = 1.0 / 32;
  }
  return options;
}

}  // namespace relibra
