#pragma once
// Synthetic routing with the statistics of RL rollouts: the reference workload of docs/planning.md, as a
// RoutingSource.
//
// The weight of expert e for a token is exp(base[e] + domain[d][e] + type[t][e] + prompt[p][e]) times a
// factor of the sequence, gamma(12)/12; all are drawn anew for each layer. A token takes top-k experts by
// weight without repeats. Types stand in runs of 4 tokens and are mixed per domain by Dirichlet(1), per
// sequence around it. Answers of a prompt stand next to each other.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/routing.h"

namespace relibra {

/// A model's shape, by name ("qwen3-235b").
struct ModelPreset {
  std::string_view name, model;
  int layers, first_layer, experts, top_k;
  int hidden, intermediate;  ///< H and the expert's I, for execution and the step-time model
  int shared_experts = 0;    ///< of the same I, computed for every token
};

std::span<const ModelPreset> model_presets();
/// Throws Fault::usage that lists the names.
const ModelPreset& model_preset(std::string_view name);

/// How often each expert was chosen in a real model, per text domain and layer.
struct MeasuredPopularity {
  std::vector<std::string> domains;  ///< (D)
  std::vector<int> layers;           ///< (N) model blocks, strictly increasing, the last near the model's end
  int experts = 0;                   ///< E of the measured model
  std::vector<double> counts;        ///< (D, N, E), not negative, any scale
};

struct WorkloadOptions {
  std::string model;
  int layers = 0, first_layer = 0, experts = 0, top_k = 0;

  std::uint64_t seed = 1;
  std::int64_t sequences = 1024;
  int answers_per_prompt = 8;
  double scale = 1;                 ///< of the reference's token counts
  int micro_batches = 32;           ///< num_micro_batches of the dump; 0: not said
  bool fixed_micro_batches = true;  ///< write /sequences/micro_batch: equal runs of sequences in order
  int source_ranks = 0;             ///< W: write /sequences/source_rank, in order in a micro-batch; 0: not
  std::optional<IdType> id_type;    ///< absent: the smallest of u8, i16, i32 that holds the ids
  double missing_share = 0;         ///< of the rows, without any route

  double sd_base = 0.62, sd_domain = 0.65, sd_type = 0.65, sd_prompt = 0.35;
  double gamma_shape = 12;

  /// A later step has other sequences, of a model that has moved on: base and domain terms walk by
  /// x' = sqrt(1 - drift^2) x + drift * (a new draw), which keeps their variance.
  std::int64_t step = 0;
  double drift = 0.1;

  /// In place of the base and domain terms. A layer takes the measured layer nearest in relative depth; other
  /// layers than the measured ones, and other numbers of experts, take its experts in a random order.
  std::optional<MeasuredPopularity> popularity;
};

/// The preset's shape with the reference workload (with a short one for "tiny").
WorkloadOptions workload_options(const ModelPreset& preset);

/// Rows are made as they are read, on the threads of the process: the same rows for any range, block size,
/// number of ranks and threads. `read` is local. Throws Fault::usage where the options contradict.
std::unique_ptr<RoutingSource> make_workload(const WorkloadOptions& options);

}  // namespace relibra
