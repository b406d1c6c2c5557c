#include "lib/planning/quota.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "tests/support/domains.h"

namespace relibra {
namespace {

using test::Domain;
using test::domain_of;
using test::random_domain;

// Loads of the ranks under a plan; every rule of a plan is checked on the way.
std::vector<std::int64_t> checked_loads(const Domain& domain, const QuotaOptions& options,
                                        const DomainPlan& plan) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(domain.ranks), 0), left = domain.load;
  std::vector<int> held(load.size(), 0);
  for (std::size_t i = 0; i < plan.quotas.size(); ++i) {
    const Quota& q = plan.quotas[i];
    const auto e = static_cast<std::size_t>(q.expert), r = static_cast<std::size_t>(q.rank);
    EXPECT_GT(q.tokens, 0);
    EXPECT_NE(q.rank, domain.home[e]);
    if (i > 0) {
      EXPECT_LT(std::pair(plan.quotas[i - 1].expert, plan.quotas[i - 1].rank), std::pair(q.expert, q.rank));
    }
    ++held[r];
    left[e] -= q.tokens;
    load[r] += q.tokens;
    EXPECT_GE(left[e], 1) << "the home keeps a token";
  }
  for (std::size_t e = 0; e < left.size(); ++e) load[static_cast<std::size_t>(domain.home[e])] += left[e];
  EXPECT_LE(*std::max_element(held.begin(), held.end()), options.slots);
  EXPECT_EQ(*std::max_element(load.begin(), load.end()), plan.max_load);
  return load;
}

// The mean is 50, so T = 51: rank 0 has 49 too much and the others room for 31, 11, 11. 31 of expert 0 go to
// rank 1, 11 to rank 2 (the first of equals), and the last 7 to rank 3.
TEST(Quota, PublishedVector) {
  const Domain domain = domain_of({{80, 20}, {10, 10}, {30, 10}, {5, 35}});
  const QuotaOptions options{.slots = 1};
  const DomainPlan plan = plan_quotas(domain.view(), options);
  EXPECT_EQ(checked_loads(domain, options, plan), (std::vector<std::int64_t>{51, 51, 51, 47}));
  ASSERT_EQ(plan.quotas.size(), 3u);
  const std::int64_t tokens[] = {31, 11, 7};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plan.quotas[i].expert, 0);
    EXPECT_EQ(plan.quotas[i].rank, static_cast<int>(i) + 1);
    EXPECT_EQ(plan.quotas[i].tokens, tokens[i]);
  }
}

TEST(Quota, NothingToDo) {
  for (const Domain& domain : {domain_of({{5, 5}, {10}}), domain_of({{0}, {0}}), domain_of({{7, 3}})})
    EXPECT_TRUE(plan_quotas(domain.view(), {.slots = 2}).quotas.empty());
  EXPECT_TRUE(plan_quotas(domain_of({{90}, {0}}).view(), {.slots = 0}).quotas.empty());
}

// One expert carries all: the home keeps a token, however high the floor.
TEST(Quota, TheHomeKeepsAToken) {
  const Domain domain = domain_of({{1, 1}, {0}});
  EXPECT_TRUE(plan_quotas(domain.view(), {.slots = 2, .floor = 1}).quotas.empty());
}

// A second look at one build, written down from its description and nothing else: the slowest rank that is
// left, or nothing where excess is more than room.
std::optional<std::int64_t> slow_build(const Domain& domain, int slots, std::int64_t target,
                                       std::int64_t fixed_floor) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(domain.ranks), 0);
  for (std::size_t e = 0; e < domain.load.size(); ++e)
    load[static_cast<std::size_t>(domain.home[e])] += domain.load[e];
  auto room = [&, start = load](std::size_t r) {
    return std::max<std::int64_t>(0, target - std::max(start[r], load[r]));
  };
  std::int64_t excess = 0, all_room = 0;
  for (std::size_t r = 0; r < load.size(); ++r) {
    excess += std::max<std::int64_t>(0, load[r] - target);
    all_room += room(r);
  }
  if (excess > all_room || slots == 0) return std::nullopt;
  std::vector<std::size_t> ranks(load.size()), experts(domain.load.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  std::stable_sort(ranks.begin(), ranks.end(),
                   [start = load](std::size_t a, std::size_t b) { return start[a] > start[b]; });
  std::iota(experts.begin(), experts.end(), std::size_t{0});
  std::stable_sort(experts.begin(), experts.end(),
                   [&](std::size_t a, std::size_t b) { return domain.load[a] > domain.load[b]; });
  std::vector<int> used(load.size(), 0);
  for (std::size_t from : ranks)
    for (std::size_t e : experts) {
      if (static_cast<std::size_t>(domain.home[e]) != from) continue;
      std::int64_t left = domain.load[e] - 1;
      std::vector<bool> has(load.size(), false);
      for (;;) {
        const std::int64_t need = load[from] - target;
        std::size_t to = load.size(), candidates = 0;
        for (std::size_t r = 0; r < load.size(); ++r) {
          if (room(r) == 0 || used[r] == slots) continue;
          ++candidates;
          if (!has[r] && (to == load.size() || room(r) > room(to))) to = r;
        }
        if (need <= 0 || left <= 0 || to == load.size()) break;
        const std::int64_t tokens = std::min({need, left, room(to)});
        if (tokens < (fixed_floor ? fixed_floor : need / static_cast<std::int64_t>(candidates))) break;
        has[to] = true;
        ++used[to];
        left -= tokens;
        load[from] -= tokens;
        load[to] += tokens;
      }
    }
  return *std::max_element(load.begin(), load.end());
}

// On random domains the plan is valid, and never worse than any build that the search must have made.
TEST(Quota, KeepsTheBestOfBothForms) {
  Random random(11);
  for (int round = 0; round < 500; ++round) {
    const int ranks = 2 + static_cast<int>(random.below(20));
    const Domain domain = random_domain(random, ranks, 1 + static_cast<int>(random.below(4)), 1.0,
                                        random.below(4) ? 200'000 : 300, random.below(2) ? 0.6 : 0);
    const QuotaOptions options{.slots = 1 + static_cast<int>(random.below(3)),
                               .floor = 1 + static_cast<std::int64_t>(random.below(1500))};
    const DomainPlan plan = plan_quotas(domain.view(), options);
    checked_loads(domain, options, plan);
    std::vector<std::int64_t> load(static_cast<std::size_t>(ranks), 0);
    for (std::size_t e = 0; e < domain.load.size(); ++e)
      load[static_cast<std::size_t>(domain.home[e])] += domain.load[e];
    const std::int64_t most = *std::max_element(load.begin(), load.end()), mean = plan.bound;
    EXPECT_EQ(mean, (std::accumulate(load.begin(), load.end(), std::int64_t{0}) + ranks - 1) / ranks);
    const std::int64_t start = (mean * 101 + 99) / 100;
    std::int64_t best = most;
    if (start >= most) continue;
    if (const auto first = slow_build(domain, options.slots, start, 0)) best = std::min(best, *first);
    if (best > start)
      if (const auto fixed = slow_build(domain, options.slots, mean, options.floor))
        best = std::min(best, *fixed);
    EXPECT_LE(plan.max_load, best);
  }
}

// Tokens of UltraEP's workload by expert: weight (rank + 1)^-a * (index + 1)^-4, top 8 without repeats.
std::vector<std::int64_t> drawn_loads(double a, int tokens, Random random) {
  constexpr int kRanks = 64, kPerRank = 4, kTop = 8;
  std::vector<double> sum;
  for (int r = 0; r < kRanks; ++r)
    for (int i = 0; i < kPerRank; ++i)
      sum.push_back((sum.empty() ? 0 : sum.back()) + std::pow(r + 1, -a) * std::pow(i + 1, -4));
  std::vector<std::int64_t> load(sum.size(), 0);
  for (int t = 0; t < tokens; ++t) {
    std::size_t chosen[kTop];
    for (int k = 0; k < kTop;) {
      const double x = random.uniform() * sum.back();
      chosen[k] =
          std::min(static_cast<std::size_t>(std::upper_bound(sum.begin(), sum.end(), x) - sum.begin()),
                   sum.size() - 1);
      if (std::find(chosen, chosen + k, chosen[k]) == chosen + k) ++load[chosen[k++]];
    }
  }
  return load;
}

double skew_of(const std::vector<std::int64_t>& load) {
  std::int64_t most = 0, total = 0;
  for (std::size_t r = 0; r < load.size(); r += 4) {
    const std::int64_t of_rank = load[r] + load[r + 1] + load[r + 2] + load[r + 3];
    most = std::max(most, of_rank);
    total += of_rank;
  }
  return static_cast<double>(most) * 64 / static_cast<double>(total);
}

// 64 ranks, 256 experts, 8192 tokens a rank, two slots: 1.5, 2 and 3 all become 1.01, with about as many
// copies as published (38, 46, 51).
TEST(Quota, UltraEpsWorkloadReachesOnePercent) {
  for (const auto& [skew, copies] : {std::pair{1.5, 38}, {2.0, 46}, {3.0, 51}}) {
    double low = 0, high = 3;
    for (int i = 0; i < 14; ++i) {
      const double middle = (low + high) / 2;
      (skew_of(drawn_loads(middle, 16384, Random(1))) < skew ? low : high) = middle;
    }
    Domain domain;
    domain.ranks = 64;
    domain.load = drawn_loads(low, 64 * 8192, Random(2));
    for (int e = 0; e < 256; ++e) domain.home.push_back(e / 4);
    EXPECT_NEAR(skew_of(domain.load), skew, 0.05);
    const QuotaOptions options{.slots = 2};
    const DomainPlan plan = plan_quotas(domain.view(), options);
    checked_loads(domain, options, plan);
    EXPECT_LE(static_cast<double>(plan.max_load), 1.0101 * static_cast<double>(plan.bound)) << skew;
    EXPECT_NEAR(static_cast<double>(plan.quotas.size()), copies, 8) << skew;
  }
}

}  // namespace
}  // namespace relibra
