#include "lib/planning/replicate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "tests/support/domains.h"

namespace relibra {
namespace {

using test::Domain;
using test::domain_of;
using test::random_domain;

// The slowest rank of a plan by recount; checks every rule of a plan on the way.
std::int64_t checked_max(const DomainLoad& domain, const ReplicateOptions& options, const DomainPlan& plan) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(domain.ranks), 0);
  std::vector<std::int64_t> left(domain.load.begin(), domain.load.end());
  std::vector<int> held(load.size(), 0), sent(load.size(), 0);
  for (std::size_t i = 0; i < plan.quotas.size(); ++i) {
    const Quota& q = plan.quotas[i];
    const auto e = static_cast<std::size_t>(q.expert), r = static_cast<std::size_t>(q.rank);
    EXPECT_GT(q.tokens, 0);
    EXPECT_NE(q.rank, domain.home[e]);
    const Quota before = i > 0 ? plan.quotas[i - 1] : Quota{-1, 0, 0};
    EXPECT_LT(std::pair(before.expert, before.rank), std::pair(q.expert, q.rank));
    ++held[r];
    ++sent[static_cast<std::size_t>(domain.home[e])];
    left[e] -= q.tokens;
    EXPECT_GE(left[e], 0);
    load[r] += q.tokens;
  }
  for (std::size_t e = 0; e < left.size(); ++e) load[static_cast<std::size_t>(domain.home[e])] += left[e];
  EXPECT_LE(*std::max_element(held.begin(), held.end()), options.slots);
  if (options.max_fan_out > 0) {
    EXPECT_LE(*std::max_element(sent.begin(), sent.end()), options.max_fan_out);
  }
  const auto max = *std::max_element(load.begin(), load.end());
  EXPECT_EQ(max, plan.max_load);
  EXPECT_GE(max, plan.bound);
  return max;
}

std::int64_t best(const Domain& domain, int slots, int max_fan_out = 0) {
  const ReplicateOptions options{.slots = slots, .tolerance = 0, .max_fan_out = max_fan_out};
  return checked_max(domain.view(), options, replicate(domain.view(), options));
}

// Ranks 10, 2, 0 with experts 6 4 | 2 | none; mean 4. One slot: rank 1 can compute at most 2 + 6, rank 2 at
// most 6, so nothing but the mean binds. No slot: nobody helps rank 0.
TEST(ReplicaBound, WorkedExample) {
  const auto domain = domain_of({{6, 4}, {2}, {}});
  EXPECT_EQ(replica_bound(domain.view(), 1), 4);
  EXPECT_EQ(replica_bound(domain.view(), 0), 10);
}

// 12 small experts on rank 0: with one slot each the two others can take one expert, so T >= 12 - 2 * 1.
TEST(ReplicaBound, SmallExpertsBind) {
  const auto domain = domain_of({std::vector<std::int64_t>(12, 1), {}, {}});
  EXPECT_EQ(replica_bound(domain.view(), 1), 10);
  EXPECT_EQ(replica_bound(domain.view(), 3), 6);
  EXPECT_EQ(replica_bound(domain.view(), 4), 4);
  for (int slots = 0; slots < 6; ++slots) EXPECT_EQ(best(domain, slots), replica_bound(domain.view(), slots));
}

// Without slots there is nothing to look through: the first call of a thread, under sanitizers.
TEST(ReplicaBound, NoSlotsOnAFreshThread) {
  std::int64_t bound = 0;
  std::thread([&] { bound = replica_bound(domain_of({{6, 4}, {1}}).view(), 0); }).join();
  EXPECT_EQ(bound, 10);
}

// A published threshold planner ends at 51 51 51 47 on this; the mean is 50.
TEST(Replicate, QuotaVector) {
  const auto domain = domain_of({{80, 20}, {10, 10}, {30, 10}, {5, 35}});
  EXPECT_EQ(replica_bound(domain.view(), 1), 50);
  EXPECT_EQ(best(domain, 1), 50);
}

// Chaining: rank 2 needs 9 but only expert 0 of rank 0 (load 12) has that much, 3 more than rank 0 can give
// away without falling below the mean of 10; rank 0 then takes 3 from rank 1 in its own slot. Without a chain
// rank 2 ends at 7 and rank 1 keeps 13.
TEST(Replicate, DonorIsDrivenBelowTheTargetAndFilledLater) {
  const auto domain = domain_of({{12, 4}, {4, 3, 3, 3}, {1}});
  EXPECT_EQ(best(domain, 1), 10);
}

TEST(Replicate, AllLoadOnOneExpertIsSharedByAll) {
  EXPECT_EQ(best(domain_of({{101}, {}, {}, {}}), 1), 26);
  EXPECT_EQ(best(domain_of({{0, 0}, {0, 64000}, {0, 0}, {0, 0}}), 2), 16000);
}

TEST(Replicate, FanOutLimitsTheCopiesOfOneHome) {
  const auto domain = domain_of({{60, 60}, {}, {}, {}});
  EXPECT_EQ(best(domain, 1), 30);
  EXPECT_EQ(best(domain, 1, 1), 60);
  EXPECT_EQ(best(domain, 1, 2), 40);
}

TEST(Replicate, EdgeCases) {
  for (const auto& domain :
       {domain_of({{5}}), domain_of({{}}), domain_of({{0, 0}, {0, 0}}), domain_of({{}, {}}),
        domain_of({{7, 9}, {1, 1}}), domain_of({{}, {}, {3}}), domain_of({{1}, {1}, {0}})})
    for (int slots : {0, 1, 2, 5})
      for (int fan_out : {0, 1, 2})
        EXPECT_LE(best(domain, slots, fan_out), std::accumulate(domain.load.begin(), domain.load.end(), 0ll));
}

// 30 10 20 20 with a mean of 20: one copy is enough, and 5 % of tolerance needs none for 21 19 20 20.
TEST(Replicate, FewestCopies) {
  EXPECT_EQ(replicate(domain_of({{30}, {10}, {20}, {20}}).view(), {.slots = 2, .tolerance = 0}).quotas.size(),
            1u);
  EXPECT_EQ(replicate(domain_of({{21}, {19}, {20}, {20}}).view(), {.slots = 2, .tolerance = 0}).quotas.size(),
            1u);
  EXPECT_EQ(
      replicate(domain_of({{21}, {19}, {20}, {20}}).view(), {.slots = 2, .tolerance = 0.05}).quotas.size(),
      0u);
}

// Two pairs that even out by themselves need two copies, where a chain of four ranks takes three.
TEST(Replicate, PairsOfRanksNeedOneCopyEach) {
  const auto domain = domain_of({{31}, {29}, {27}, {33}});
  EXPECT_EQ(replicate(domain.view(), {.slots = 1, .tolerance = 0}).quotas.size(), 2u);
}

// The cell waits for another domain at 40: nothing to do here.
TEST(Replicate, EnoughSavesCopies) {
  const auto domain = domain_of({{40}, {10}, {10}});
  const ReplicateOptions options{.slots = 1, .tolerance = 0, .enough = 40};
  const auto plan = replicate(domain.view(), options);
  EXPECT_EQ(checked_max(domain.view(), options, plan), 40);
  EXPECT_TRUE(plan.quotas.empty());
}

TEST(Replicate, RandomDomainsKeepEveryRule) {
  Random random(11);
  for (int i = 0; i < 2000; ++i) {
    const int ranks = 1 + static_cast<int>(random.below(i % 50 == 0 ? 64 : 10));
    const auto domain = random_domain(random, ranks, 1 + static_cast<int>(random.below(33)),
                                      2 * random.uniform(), random.below(i % 3 == 0 ? 50u : 100000u));
    const ReplicateOptions options{.slots = static_cast<int>(random.below(4)),
                                   .tolerance = random.below(3) * 0.01,
                                   .max_fan_out = static_cast<int>(random.below(4))};
    checked_max(domain.view(), options, replicate(domain.view(), options));
  }
}

TEST(Replicate, ToleranceIsKeptAndSavesCopies) {
  Random random(12);
  std::size_t exact = 0, tolerant = 0;
  for (int i = 0; i < 300; ++i) {
    const auto domain = random_domain(random, 8, 4, 0.65, 60000);
    const auto tight = replicate(domain.view(), {.slots = 2, .tolerance = 0});
    const auto loose = replicate(domain.view(), {.slots = 2, .tolerance = 0.01});
    EXPECT_LE(static_cast<double>(loose.max_load), 1.01 * static_cast<double>(tight.max_load));
    exact += tight.quotas.size();
    tolerant += loose.quotas.size();
  }
  EXPECT_LT(tolerant * 100, exact * 80);
}

// Order and earlier calls do not matter.
TEST(Replicate, SameInputSameResult) {
  Random random(13);
  const auto domain = random_domain(random, 8, 16, 1, 60000), other = random_domain(random, 5, 3, 1, 600);
  const auto first = replicate(domain.view(), {});
  replicate(other.view(), {.slots = 1});
  const auto second = replicate(domain.view(), {});
  ASSERT_EQ(first.quotas.size(), second.quotas.size());
  for (std::size_t i = 0; i < first.quotas.size(); ++i) {
    EXPECT_EQ(first.quotas[i].expert, second.quotas[i].expert);
    EXPECT_EQ(first.quotas[i].rank, second.quotas[i].rank);
    EXPECT_EQ(first.quotas[i].tokens, second.quotas[i].tokens);
  }
}

}  // namespace
}  // namespace relibra
