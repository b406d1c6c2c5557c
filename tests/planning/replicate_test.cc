#include "lib/planning/replicate.h"

#include <gtest/gtest.h>

#include "lib/base/random.h"

namespace relibra {
namespace {

struct Node {
  int ranks = 0;
  std::vector<std::int32_t> home;
  std::vector<std::int64_t> load;
  DomainLoad domain() const { return {ranks, home, load}; }
};

// loads[r] are the loads of the experts whose home is rank r.
Node node_of(const std::vector<std::vector<std::int64_t>>& loads) {
  Node node;
  node.ranks = static_cast<int>(loads.size());
  for (std::size_t r = 0; r < loads.size(); ++r)
    for (std::int64_t load : loads[r]) {
      node.home.push_back(static_cast<std::int32_t>(r));
      node.load.push_back(load);
    }
  return node;
}

// The loads of all ranks under a plan; checks the rules of a plan on the way.
std::vector<std::int64_t> rank_loads(const DomainLoad& domain, const ReplicateOptions& options,
                                     const DomainPlan& plan) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(domain.ranks));
  std::vector<int> held(load.size()), sent(load.size());
  std::vector<std::int64_t> left(domain.load.begin(), domain.load.end());
  for (std::size_t i = 0; i < plan.quotas.size(); ++i) {
    const Quota& q = plan.quotas[i];
    const auto e = static_cast<std::size_t>(q.expert), r = static_cast<std::size_t>(q.rank);
    EXPECT_GT(q.tokens, 0);
    EXPECT_NE(q.rank, domain.home[e]);
    if (i > 0) {
      const Quota& before = plan.quotas[i - 1];
      EXPECT_LT(std::pair(before.expert, before.rank), std::pair(q.expert, q.rank));
    }
    EXPECT_LE(++held[r], options.slots);
    ++sent[static_cast<std::size_t>(domain.home[e])];
    left[e] -= q.tokens;
    EXPECT_GE(left[e], 0);
    load[r] += q.tokens;
  }
  for (std::size_t e = 0; e < left.size(); ++e) load[static_cast<std::size_t>(domain.home[e])] += left[e];
  const int most = options.max_fan_out > 0 ? options.max_fan_out : 1 << 30;
  for (int n : sent) EXPECT_LE(n, most);
  return load;
}

std::int64_t checked_max(const DomainLoad& domain, const ReplicateOptions& options, const DomainPlan& plan) {
  const auto load = rank_loads(domain, options, plan);
  const auto max = *std::max_element(load.begin(), load.end());
  EXPECT_EQ(max, plan.max_load);
  EXPECT_GE(max, plan.bound);
  return max;
}

// The published planner ends at 51: 51 51 51 47. The mean is ceil(200 / 4) = 50.
TEST(Replicate, QuotaVector) {
  const Node node = node_of({{80, 20}, {10, 10}, {30, 10}, {5, 35}});
  const ReplicateOptions options{.slots = 1, .tolerance = 0};
  const auto plan = replicate(node.domain(), options);
  EXPECT_EQ(plan.bound, 50);
  EXPECT_LE(checked_max(node.domain(), options, plan), 51);
}

TEST(Replicate, EdgeCases) {
  for (const Node& node : {node_of({{5}}), node_of({{0, 0}, {0, 0}}), node_of({{100}, {}, {}, {}}),
                           node_of({{7, 9}, {1, 1}}), node_of({{}, {}, {3}})})
    for (int slots : {0, 1, 2, 5})
      for (int fan_out : {0, 1, 2}) {
        const ReplicateOptions options{.slots = slots, .tolerance = 0, .max_fan_out = fan_out};
        checked_max(node.domain(), options, replicate(node.domain(), options));
      }
}

TEST(Replicate, AllLoadOnOneExpertIsSharedByAll) {
  const Node node = node_of({{101}, {}, {}, {}});
  const ReplicateOptions options{.slots = 1, .tolerance = 0};
  EXPECT_EQ(checked_max(node.domain(), options, replicate(node.domain(), options)), 26);
}

}  // namespace
}  // namespace relibra
