// The double notices a wait that the transport does not make, though the messages come out right.
#include "lib/exec/transport_setup.h"
#include "tests/cuda_double/bench.h"
#include "tests/cuda_double/module.h"
#include "tests/support/execution.h"

namespace relibra::testing {
namespace {

using exec::Channel;

/// The module, except that no stream ever waits for another.
kernels::Backend without_waits() {
  kernels::Backend backend = module_on_double();
  backend.stream_wait = [](kernels::Stream*, kernels::Event*) { return kernels::Status::ok; };
  return backend;
}

TEST(Waits, ATransferBesideTheWorkThatMakesItsDataIsCaught) {
  const Comm comm = Comm::world();
  if (comm.size() < 2) GTEST_SKIP() << "needs 2 ranks";
  const kernels::Backend backend = without_waits();
  {
    const exec::Device device(backend, exec::choose_device(comm, backend));
    const exec::Stream stream(device);
    const auto transport = exec::make_transport(comm, device, {comm.size(), 1, comm.size()},
                                                ReplicaDomain::node, {.timeout_seconds = 20});
    const exec::Buffer out(device, 256), in(device, 256);
    const auto fill = [&](float value) {
      device.check(backend.fill(stream.handle(), out.data(), kernels::Type::float32, value, 64), "fill");
    };
    fill(1);
    stream.synchronize();
    fill(2);  // this one may run beside the transfer
    const RankId right((comm.rank() + 1) % comm.size()), left((comm.rank() + comm.size() - 1) % comm.size());
    const exec::Round round{{{right, out.data(), 256}}, {{left, in.data(), 256}}};
    try {
      transport->wait(transport->begin(Channel::weights, std::span(&round, 1), stream.handle()),
                      stream.handle());
      transport->finish(stream.handle());
      ADD_FAILURE() << "the missing wait went unnoticed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("fill on stream"));
    }
  }
  cuda_double_reset();
  comm.barrier();
}

/// What a step leaves whose `missing`-th wait is left out on every rank. No collective calls once it has
/// begun, as some ranks may fail.
struct Step {
  Step(const Comm& comm, const ExecutionCase& input, int missing) {
    {
      Execution execution(comm, input, {.hidden = 8, .intermediate = 8, .type = kernels::Type::bfloat16},
                          {.backend = &module_on_double(), .max_fan_out = 1, .timeout_seconds = 1});
      cuda_double_ignore_wait(missing);
      try {
        results = execution.run();
      } catch (const Error&) {
        failed = true;
      }
      reached = cuda_double_ignore_wait(-1) < 0;
      violation = cuda_double_violation();
    }
    cuda_double_reset();
    comm.barrier();
  }
  StepResults results;
  bool failed = false, reached = false;
  std::string violation;
};

// Half of the waits of this step order streams that nothing else orders; the others are by then implied, as
// those for the scratch of GEMMs are on one stream. So each is either caught, or the step is right to the
// bit.
TEST(Waits, OfAStepAreCaughtWhereTheyAreNeeded) {
  const Comm comm = Comm::world();
  if (comm.size() != 2) GTEST_SKIP() << "needs 2 ranks";
  setenv("CUDA_DOUBLE_TIMEOUT", "1", 1);
  const auto input =
      execution_case(8, {.topology = {2, 1, 2}, .layers = 2, .micro_batches = 2, .sequences = 10});
  const Step right(comm, input, -1);
  ASSERT_EQ(right.violation, "");
  int caught = 0;
  for (int missing = 0;; ++missing) {
    const Step step(comm, input, missing);
    if (comm.min(step.reached ? 1 : 0) == 0) break;
    if (!step.failed) {
      EXPECT_EQ(step.results, right.results) << "wait " << missing;
    }
    const bool said = step.violation.find("no wait orders the two") != std::string::npos;
    caught += comm.max(said ? 1 : 0);
  }
  EXPECT_GE(caught, 8);
  unsetenv("CUDA_DOUBLE_TIMEOUT");
}

}  // namespace
}  // namespace relibra::testing
