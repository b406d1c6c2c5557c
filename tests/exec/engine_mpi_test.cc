// Verified steps of random plans: forward, backward, gate and weight gradients against the placement-free
// reference. The number of ranks is that of mpirun; plans are drawn for every way to cut it into groups.
#include <gtest/gtest.h>

#include "tests/support/execution.h"

namespace relibra::exec {
namespace {

using relibra::testing::CaseOptions;
using relibra::testing::Execution;
using relibra::testing::execution_case;

std::string text_of(const VerifyReport& report) {
  std::string text;
  for (const VerifyKind& kind : report.kinds)
    text += kind.what + " " + std::to_string(kind.error * 1e6) + "e-6 (" + kind.worst + ")\n";
  return text + report.row.what + " " + std::to_string(report.row.error * 1e6) + "e-6\n";
}

/// Ways to cut `world` ranks into EP groups and nodes.
std::vector<Topology> topologies(int world) {
  std::vector<Topology> found;
  for (const int groups : {1, 2})
    for (const int node : {1, 2, 4}) {
      const Topology t{world / groups, groups, node};
      if (world % groups == 0 && (t.ep_size % node == 0 || node % t.ep_size == 0) && node <= world)
        found.push_back(t);
    }
  return found;
}

TEST(Engine, RandomPlansAreExecutedExactly) {
  const Comm comm = Comm::world();
  std::uint64_t seed = 1;
  for (const Topology& topology : topologies(comm.size()))
    for (const ReplicaDomain domain : {ReplicaDomain::node, ReplicaDomain::group}) {
      CaseOptions options{.topology = topology, .domain = domain};
      options.experts = 7 + static_cast<int>(seed % 4);
      options.top_k = 1 + static_cast<int>(seed % 3);
      options.sequences = 5 * comm.size();
      const auto input = execution_case(seed++, options);
      Execution execution(comm, input, {.hidden = 24, .intermediate = 20});
      const VerifyReport report = execution.verify();
      EXPECT_TRUE(report.passed()) << "seed " << seed - 1 << "\n" << text_of(report);
    }
}

}  // namespace
}  // namespace relibra::exec
