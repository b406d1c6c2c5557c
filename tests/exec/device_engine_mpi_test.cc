// The whole engine on backends with networks of their own: random plans executed and verified, in float32 and
// bfloat16.
#include <gtest/gtest.h>

#include "tests/support/backends.h"
#include "tests/support/execution.h"

namespace relibra::exec {
namespace {

using relibra::testing::CaseOptions;
using relibra::testing::Execution;
using relibra::testing::execution_case;

class DeviceEngine : public ::testing::TestWithParam<std::tuple<const kernels::Backend*, kernels::Type>> {
 protected:
  void SetUp() override {
    if (!backend().network_create) GTEST_SKIP() << "the host's engine has tests of its own";
  }
  const kernels::Backend& backend() const { return *std::get<0>(GetParam()); }
  ModelShape shape() const { return {.hidden = 24, .intermediate = 16, .type = std::get<1>(GetParam())}; }
  void expect_verified(std::uint64_t seed, const CaseOptions& options, int max_fan_out) {
    const auto input = execution_case(seed, options);
    Execution execution(comm, input, shape(),
                        {.backend = &backend(), .max_fan_out = max_fan_out, .value_seed = seed});
    const VerifyReport report = execution.verify();
    std::string text;
    for (const VerifyKind& kind : report.kinds) text += kind.what + " " + std::to_string(kind.error) + "\n";
    EXPECT_TRUE(report.passed()) << "seed " << seed << "\n" << text;
  }

  const Comm comm = Comm::world();
};

TEST_P(DeviceEngine, RandomPlansInOneGroup) {
  for (const ReplicaDomain domain : {ReplicaDomain::node, ReplicaDomain::group})
    for (const int max_fan_out : {0, 1})
      expect_verified(
          31, {.topology = {comm.size(), 1, comm.size()}, .sequences = 5 * comm.size(), .domain = domain},
          max_fan_out);
}

TEST_P(DeviceEngine, TwoGroupsIdleRanksAndEmptyMicroBatches) {
  if (comm.size() % 2 != 0) GTEST_SKIP() << "needs an even number of ranks";
  CaseOptions options{.topology = {comm.size() / 2, 2, 1}, .sequences = 5 * comm.size()};
  options.idle_rank = options.empty_micro_batch = true;
  expect_verified(32, options, 4);
}

std::string name_of(
    const ::testing::TestParamInfo<std::tuple<const kernels::Backend*, kernels::Type>>& info) {
  return std::string(std::get<0>(info.param)->name) +
         (std::get<1>(info.param) == kernels::Type::float32 ? "_float32_" : "_bfloat16_") +
         std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Backends, DeviceEngine,
                         ::testing::Combine(::testing::ValuesIn(relibra::testing::test_backends()),
                                            ::testing::Values(kernels::Type::float32,
                                                              kernels::Type::bfloat16)),
                         name_of);

}  // namespace
}  // namespace relibra::exec
