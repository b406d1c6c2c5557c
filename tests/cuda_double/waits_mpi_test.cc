// The double notices a wait that the transport does not make, though the messages come out right.
#include "lib/exec/transport_setup.h"
#include "tests/cuda_double/bench.h"
#include "tests/cuda_double/module.h"

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

}  // namespace
}  // namespace relibra::testing
