#pragma once
// Everything of an execution, set up from a plan, for tests of the engine: on the host over MPI, and on every
// device backend that the contract tests have, over its own network.
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lib/exec/collect.h"
#include "lib/exec/setup.h"
#include "lib/exec/transport_setup.h"
#include "lib/exec/verify.h"
#include "tests/support/backends.h"
#include "tests/support/execution_case.h"

namespace relibra::testing {

exec::Selection select_all(const Plan& plan);

/// Backends on which a step of `comm.size()` ranks can run.
std::vector<const kernels::Backend*> step_backends(const Comm& comm);

struct ExecutionOptions {
  const kernels::Backend* backend = nullptr;  ///< null: the reference
  int max_fan_out = 4;
  std::uint64_t value_seed = 1;
  double timeout_seconds = 60;
};

/// What a step left, on the host.
struct StepResults {
  std::vector<std::vector<float>> layer_out;  ///< by visit: (tokens, H)
  std::vector<std::vector<float>> gates;      ///< by backward visit: (tokens, K)
  std::vector<float> home_gradients;          ///< (layers, C, 3HI)
  bool operator==(const StepResults&) const = default;
};

/// One rank a process over `comm`. The schedule may be changed between construction and a step: that is how
/// tests put faults into one.
struct Execution {
  Execution(const Comm& comm, const ExecutionCase& input, const exec::ModelShape& shape,
            const ExecutionOptions& options = {});

  /// Collective. Buffers, transport and engine for the schedule as it is now, home weights loaded; verify()
  /// and run() begin with it.
  void prepare();
  exec::VerifyReport verify();
  StepResults run();

  /// Collective. Weight gradients by expert, (L, E, 3HI), each from its home in group 0.
  std::vector<float> gradients_by_expert(const StepResults& results) const;

  const Comm& comm;
  const Plan& plan;
  double timeout_seconds;
  exec::ModelShape shape;
  exec::Selection selection;
  exec::Generator generator;
  std::vector<exec::SourceRoutes> sources;
  exec::RankSchedule schedule;
  exec::Device device;
  std::unique_ptr<exec::RankBuffers> buffers;
  std::unique_ptr<exec::Transport> transport;
  std::unique_ptr<exec::Engine> engine;
};

}  // namespace relibra::testing
