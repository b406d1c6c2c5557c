// What the CUDA module does beyond the contract of kernels/backend.h: scratch that GEMMs share, sizes that it
// refuses, machines without a driver, networks that fail.
#include <cublas_v2.h>

#include <numeric>

#include "kernels/bodies/host_device.h"
#include "lib/exec/device.h"
#include "tests/cuda_double/bench.h"
#include "tests/cuda_double/module.h"
#include "tests/support/cuda_double/communicator.h"

namespace relibra::testing {
namespace {

using exec::Buffer;
using kernels::Bf16;
using kernels::GemmGroup;
using kernels::GemmKind;
using kernels::GemmSpec;
using kernels::Status;
using kernels::Type;

class Module : public ::testing::Test {
 protected:
  ~Module() override { EXPECT_STREQ(cuda_double_violation(), ""); }
  static std::string last_error() { return module_on_double().last_error(); }
};

/// A bfloat16 weight gradient of ones: out (n, k) += rows everywhere.
struct OnesGradient {
  OnesGradient(const exec::Device& device, const exec::Stream& stream, std::int64_t n, std::int64_t k,
               std::int64_t rows)
      : count(static_cast<std::size_t>(n * k)),
        a(ones(stream, rows * n)),
        b(ones(stream, rows * k)),
        out(exec::upload(stream, std::span<const float>(std::vector<float>(count, 0.5f)))),
        group{rows, a.data(), b.data(), out.data(), true},
        gemm(device, GemmSpec{GemmKind::weight_gradient, Type::bfloat16, n, k, &group, 1}) {}
  static Buffer ones(const exec::Stream& stream, std::int64_t elements) {
    const std::vector<Bf16> values(static_cast<std::size_t>(elements), kernels::from_float<Bf16>(1));
    return exec::upload(stream, std::span<const Bf16>(values));
  }
  void expect(const exec::Stream& stream, float value) const {
    EXPECT_EQ(exec::download<float>(stream, out.data(), count), std::vector<float>(count, value));
  }
  std::size_t count;
  Buffer a, b, out;
  GemmGroup group;
  exec::Gemm gemm;
};

// 0.5 + 3 = 3.5 and again 6.5; the larger GEMM makes the scratch anew, after which the smaller still works.
TEST_F(Module, GemmsShareAScratchThatGrows) {
  const exec::Device device(module_on_double());
  const exec::Stream stream(device);
  const OnesGradient small(device, stream, 8, 8, 3);
  small.gemm.run(stream.handle());
  small.expect(stream, 3.5f);
  const OnesGradient large(device, stream, 16, 40, 5);
  small.gemm.run(stream.handle());
  large.gemm.run(stream.handle());
  large.expect(stream, 5.5f);
  small.expect(stream, 6.5f);
}

TEST_F(Module, GemmsOnTwoStreamsTakeTurnsWithTheScratch) {
  const exec::Device device(module_on_double());
  const exec::Stream one(device), two(device);
  const OnesGradient first(device, one, 8, 16, 2), second(device, one, 16, 8, 4);
  for (int i = 0; i < 3; ++i) {
    first.gemm.run(one.handle());
    second.gemm.run(two.handle());
  }
  first.expect(one, 6.5f);
  second.expect(two, 12.5f);
}

TEST_F(Module, ScratchIsNamedBeforehand) {
  std::uint64_t bytes = 0;
  GemmSpec spec{GemmKind::weight_gradient, Type::bfloat16, 16, 8, nullptr, 3};
  EXPECT_EQ(module_on_double().gemm_scratch(&spec, &bytes), Status::ok);
  EXPECT_EQ(bytes, 3u * 256u);  // 16 * 8 * 2 bytes each
  spec.type = Type::float32;
  EXPECT_EQ(module_on_double().gemm_scratch(&spec, &bytes), Status::ok);
  EXPECT_EQ(bytes, 0u);
}

TEST_F(Module, Bfloat16SizesThatCublasCannotTakeAreRefused) {
  const exec::Device device(module_on_double());
  const exec::Stream stream(device);
  EXPECT_THROW(OnesGradient(device, stream, 8, 12, 3), Error);
  EXPECT_THAT(last_error(), ::testing::HasSubstr("multiples of 8, found 8 and 12"));
}

TEST_F(Module, WithoutADriverThereAreNoDevicesAndAReason) {
  setenv("CUDA_DOUBLE_DEVICES", "0", 1);
  std::int32_t count = 77;
  EXPECT_EQ(module_on_double().device_count(&count), Status::ok);
  EXPECT_EQ(count, 0);
  EXPECT_THAT(last_error(), ::testing::HasSubstr("driver version is insufficient"));
  unsetenv("CUDA_DOUBLE_DEVICES");
}

TEST_F(Module, DevicesAreToldApartByTheirBus) {
  EXPECT_STREQ(exec::Device(module_on_double(), 1).info().bus, "double:1");
  EXPECT_STREQ(exec::Device(module_on_double(), 0).info().name, "CUDA double");
}

TEST_F(Module, OtherVersionsOfTheProgramDoNotOpenIt) {
  std::string why_not;
  EXPECT_EQ(kernels::open_backend_module("/no/such/module.so", why_not), nullptr);
  EXPECT_NE(why_not, "");
}

class Network : public Module {
 protected:
  kernels::NetworkId make_id() {
    kernels::NetworkId id;
    EXPECT_EQ(backend.network_id(&id), Status::ok);
    return id;
  }
  kernels::Network* alone() {
    const auto id = make_id();
    kernels::Network* network = nullptr;
    EXPECT_EQ(backend.network_create(device.handle(), &id, 1, 0, 5, &network), Status::ok);
    return network;
  }

  const kernels::Backend& backend = module_on_double();
  const exec::Device device{backend};
  const exec::Stream stream{device};
};

TEST_F(Network, SendsToItself) {
  auto* network = alone();
  const std::vector<float> values{1, 2, 3};
  const auto out = exec::upload(stream, std::span<const float>(values));
  const Buffer in(device, out.bytes());
  const kernels::NetworkSend send{0, out.data(), out.bytes()};
  const kernels::NetworkReceive receive{0, in.data(), in.bytes()};
  EXPECT_EQ(backend.network_exchange(network, stream.handle(), &send, 1, &receive, 1), Status::ok);
  EXPECT_EQ(exec::download<float>(stream, in.data(), 3), values);
  EXPECT_EQ(backend.network_poll(network), Status::ok);
  EXPECT_EQ(backend.network_destroy(network), Status::ok);
}

TEST_F(Network, ARankThatDoesNotComeIsAnErrorAfterTheTimeOut) {
  const auto id = make_id();
  kernels::Network* network = nullptr;
  EXPECT_EQ(backend.network_create(device.handle(), &id, 2, 0, 0.1, &network), Status::failed);
  EXPECT_THAT(last_error(), ::testing::HasSubstr("rank 0 of 2 waited for its peers longer than"));
}

TEST_F(Network, AnErrorOfTheNetworkShowsWhenPolled) {
  auto* network = alone();
  cuda_double_inject_async_error(ncclRemoteError);
  EXPECT_EQ(backend.network_poll(network), Status::failed);
  EXPECT_THAT(last_error(), ::testing::HasSubstr("remote process exited"));
  EXPECT_EQ(backend.network_abort(network), Status::ok);
}

TEST_F(Network, UnknownPeersAreRefusedBeforeAnythingIsSent) {
  auto* network = alone();
  const kernels::NetworkSend send{1, nullptr, 4};
  EXPECT_EQ(backend.network_exchange(network, stream.handle(), &send, 1, nullptr, 0), Status::failed);
  EXPECT_THAT(last_error(), ::testing::HasSubstr("expected a peer below 1, found 1"));
  EXPECT_EQ(backend.network_destroy(network), Status::ok);
}

}  // namespace
}  // namespace relibra::testing
