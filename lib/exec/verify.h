#pragma once
// A step of the engine held against the placement-free reference.
#include <string>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/exec/engine.h"
#include "lib/exec/reference.h"

namespace relibra::exec {

/// Largest ||engine - reference|| / ||reference|| over the tensors of a kind. Tensors: per micro-batch and
/// layer the outputs (tokens, H), input gradients (tokens, H) and gate-weight gradients (tokens, K) of all
/// ranks together; per layer and expert the weight gradient, on each of its homes. Where the reference is 0
/// the engine has to be 0.
struct VerifyKind {
  std::string what;
  double error = 0;
  std::string worst;  ///< the tensor
};

struct VerifyReport {
  double tolerance = 0;  ///< 1e-5 in float32, 2e-2 in bfloat16
  std::vector<VerifyKind> kinds;
  /// Largest error of one row of outputs or input gradients, over the root mean square of its tensor's rows:
  /// a single wrong row is lost in a large tensor's norm. Passes below 10 times the tolerance.
  VerifyKind row;

  bool passed() const;
};

/// Tolerance of an element type.
double verify_tolerance(kernels::Type type);

/// Collective, one rank a process. Loads nothing but the rows of tokens: the home weights are those in
/// `buffers`. Runs one step of `engine` and compares. `home` (L selected, C) is the expert in each home slot
/// of this rank, invalid where empty.
VerifyReport verify_step(const Comm& comm, Engine& engine, const RankSchedule& schedule,
                         const ModelShape& shape, const Generator& generator, const SourceRoutes& source,
                         RankBuffers& buffers, const std::vector<std::vector<ExpertId>>& home,
                         int num_experts);

/// Experts in the home slots of a rank, by selected layer: (L, C).
std::vector<std::vector<ExpertId>> home_experts(const Plan& plan, const Selection& selection, RankId rank);

/// Writes the generator's weights into the home slots.
void load_home_weights(const Stream& stream, const Generator& generator, const ModelShape& shape,
                       const Selection& selection, const std::vector<std::vector<ExpertId>>& home,
                       RankBuffers& buffers);

}  // namespace relibra::exec
