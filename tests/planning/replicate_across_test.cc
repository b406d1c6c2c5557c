#include "lib/planning/replicate_across.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/domains.h"

namespace relibra {
namespace {

using test::Domain;
using test::domain_of;
using test::random_domain;

// The copies that replicate() makes inside each node.
std::vector<Quota> copies_in_nodes(const Domain& group, const AcrossOptions& options) {
  std::vector<Quota> all;
  for (int first = 0; first < group.ranks; first += options.node_ranks) {
    std::vector<std::int32_t> home, expert;
    std::vector<std::int64_t> load;
    for (std::size_t e = 0; e < group.load.size(); ++e)
      if (group.home[e] / options.node_ranks * options.node_ranks == first) {
        home.push_back(group.home[e] - first);
        load.push_back(group.load[e]);
        expert.push_back(static_cast<std::int32_t>(e));
      }
    for (const Quota& q : replicate({options.node_ranks, home, load}, options.copies).quotas)
      all.push_back({expert[static_cast<std::size_t>(q.expert)], q.rank + first, q.tokens});
  }
  std::sort(all.begin(), all.end(), [](const Quota& a, const Quota& b) {
    return std::pair(a.expert, a.rank) < std::pair(b.expert, b.rank);
  });
  return all;
}

std::int64_t checked_max(const Domain& group, const AcrossOptions& options,
                         const std::vector<Quota>& quotas) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(group.ranks), 0), left = group.load;
  std::vector<int> held(load.size(), 0), sent(load.size(), 0);
  for (std::size_t i = 0; i < quotas.size(); ++i) {
    const Quota& q = quotas[i];
    const auto e = static_cast<std::size_t>(q.expert), r = static_cast<std::size_t>(q.rank);
    EXPECT_TRUE(i == 0 || std::pair(quotas[i - 1].expert, quotas[i - 1].rank) < std::pair(q.expert, q.rank));
    EXPECT_NE(q.rank, group.home[e]);
    EXPECT_GT(q.tokens, 0);
    ++held[r];
    ++sent[static_cast<std::size_t>(group.home[e])];
    load[r] += q.tokens;
    left[e] -= q.tokens;
    EXPECT_GE(left[e], 0);
  }
  EXPECT_LE(*std::max_element(held.begin(), held.end()), options.copies.slots);
  if (options.copies.max_fan_out > 0) {
    EXPECT_LE(*std::max_element(sent.begin(), sent.end()), options.copies.max_fan_out);
  }
  for (std::size_t e = 0; e < left.size(); ++e) load[static_cast<std::size_t>(group.home[e])] += left[e];
  return *std::max_element(load.begin(), load.end());
}

// The example of the header: rank 0 sends two copies out of its node, rank 2 one.
TEST(ReplicateAcross, CostByHand) {
  const Domain group = domain_of({{100}, {0}, {90}, {0}});
  const std::vector<Quota> quotas{{0, 1, 1}, {0, 2, 1}, {0, 3, 1}, {2, 0, 1}};
  AcrossOptions options{.node_ranks = 2, .push_price = 5};
  EXPECT_EQ(cost_across(group.view(), 120, quotas, options), 130);
  options.push_shadow = 0.1;  // the mean is 190 / 4
  EXPECT_EQ(cost_across(group.view(), 120, quotas, options), 130 - 4.75);
  options.push_shadow = 1;
  EXPECT_EQ(cost_across(group.view(), 120, quotas, options), 120);
}

// The example of the header.
TEST(ReplicateAcross, FarAssignmentsByHand) {
  const Domain group = domain_of({{70}, {0}, {0}, {0}});
  const std::vector<Quota> quotas{{0, 1, 10}, {0, 2, 10}, {0, 3, 10}};
  EXPECT_EQ(cost_across(group.view(), 40, quotas, {.node_ranks = 1, .far_price = 2}), 40 + 2 * 22.5 / 4);
}

// Node 0 carries 40 and node 1 carries 20: 20 a rank inside nodes. One copy of expert 0 on node 1 makes that
// 50 / 3, two make it 15.
TEST(ReplicateAcross, ACopyCrossesWhereItPays) {
  const Domain group = domain_of({{40}, {0}, {10}, {10}});
  AcrossOptions options{.copies = {.slots = 2, .tolerance = 0}, .node_ranks = 2};
  const auto in_nodes = copies_in_nodes(group, options);
  ASSERT_EQ(in_nodes.size(), 1u);
  for (const auto& [price, slowest] : {std::pair{0.0, 15}, {1.0, 15}, {2.0, 17}, {5.0, 20}}) {
    options.push_price = price;
    const DomainPlan plan = replicate_across(group.view(), in_nodes, options);
    EXPECT_EQ(plan.max_load, slowest) << price;
    EXPECT_EQ(plan.bound, 15);
    EXPECT_EQ(checked_max(group, options, plan.quotas), slowest);
  }
}

// A valid plan, its load as said, that never costs more than the copies inside nodes; what a copy is priced
// at bounds what crossing can have gained.
TEST(ReplicateAcross, NeverCostsMore) {
  Random random(5);
  int crossed = 0;
  for (int round = 0; round < 400; ++round) {
    const int node_ranks = 1 + static_cast<int>(random.below(4)),
              nodes = 1 + static_cast<int>(random.below(4));
    const Domain group =
        random_domain(random, node_ranks * nodes, 1 + static_cast<int>(random.below(6)), 0.8, 20'000);
    AcrossOptions options{.copies = {.slots = 1 + static_cast<int>(random.below(2)),
                                     .tolerance = random.below(2) ? 0.01 : 0,
                                     .max_fan_out = random.below(3) ? 0 : 2},
                          .node_ranks = node_ranks,
                          .push_price = random.below(3) ? 0 : 300.0 * random.uniform(),
                          .push_shadow = random.below(2) ? 0 : 0.05 * random.uniform(),
                          .far_price = random.below(2) ? 0 : random.uniform()};
    const auto in_nodes = copies_in_nodes(group, options);
    const std::int64_t before = checked_max(group, options, in_nodes);
    const DomainPlan plan = replicate_across(group.view(), in_nodes, options);
    EXPECT_EQ(checked_max(group, options, plan.quotas), plan.max_load);
    EXPECT_GE(plan.max_load, plan.bound);
    EXPECT_LE(cost_across(group.view(), plan.max_load, plan.quotas, options),
              cost_across(group.view(), before, in_nodes, options));
    crossed += plan.max_load < before;
    options.push_price = 1e9;
    EXPECT_EQ(replicate_across(group.view(), in_nodes, options).max_load, before);
  }
  EXPECT_GT(crossed, 100);
}

// Many experts a rank and two slots: with free copies anywhere the mean is met.
TEST(ReplicateAcross, FreeCopiesReachTheMean) {
  Random random(6);
  for (int round = 0; round < 50; ++round) {
    const Domain group = random_domain(random, 32, 4, 0.6, 1'000'000);
    const AcrossOptions options{.copies = {.slots = 2, .tolerance = 0}, .node_ranks = 8};
    const DomainPlan plan = replicate_across(group.view(), copies_in_nodes(group, options), options);
    EXPECT_LE(static_cast<double>(plan.max_load), 1.003 * static_cast<double>(plan.bound));
  }
}

}  // namespace
}  // namespace relibra
