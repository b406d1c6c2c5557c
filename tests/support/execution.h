#pragma once
// Everything of an execution on the host, set up from a plan, for tests of the engine.
#include <memory>
#include <optional>
#include <vector>

#include "kernels/registry.h"
#include "lib/exec/collect.h"
#include "lib/exec/setup.h"
#include "lib/exec/transport_setup.h"
#include "lib/exec/verify.h"
#include "tests/support/execution_case.h"

namespace relibra::testing {

exec::Selection select_all(const Plan& plan);

/// One rank a process over `comm`. The schedule may be changed between construction and verify(): that is how
/// tests put faults into a step.
struct Execution {
  Execution(const Comm& comm, const ExecutionCase& input, const exec::ModelShape& shape, int max_fan_out = 4,
            std::uint64_t value_seed = 1, const kernels::Backend& backend = kernels::reference_backend());

  exec::VerifyReport verify();

  const Comm& comm;
  const Plan& plan;
  exec::ModelShape shape;
  exec::Selection selection;
  exec::Generator generator;
  std::vector<exec::SourceRoutes> sources;
  exec::RankSchedule schedule;
  exec::Device device;
  std::unique_ptr<exec::Transport> transport;
  std::unique_ptr<exec::RankBuffers> buffers;
  std::unique_ptr<exec::Engine> engine;
};

}  // namespace relibra::testing
