// The helpers of reorder_cases.h, with a test of their own.
#include "tests/planning/reorder_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/base/random.h"
#include "lib/model/placement.h"

namespace relibra {
namespace {

/// (cells, domains) loads of a placement of experts on domains, kept through swaps.
struct DomainTable {
  const LayerLoads& loads;
  int domains;
  std::vector<int> domain_of;
  std::vector<double> share;  ///< (cells, experts) load over the mean domain's
  std::vector<double> table = {};

  std::size_t cells() const { return share.size() / domain_of.size(); }
  void fill() {
    table.assign(cells() * static_cast<std::size_t>(domains), 0);
    for (std::size_t c = 0; c < cells(); ++c)
      for (std::size_t e = 0; e < domain_of.size(); ++e)
        at(c, domain_of[e]) += share[c * domain_of.size() + e];
  }
  double& at(std::size_t c, int d) {
    return table[c * static_cast<std::size_t>(domains) + static_cast<std::size_t>(d)];
  }
  double objective() {
    double sum = 0;
    for (std::size_t c = 0; c < cells(); ++c) sum += *std::max_element(&at(c, 0), &at(c, 0) + domains);
    return sum;
  }
  void swap(std::size_t a, std::size_t b) {
    const int p = domain_of[a], q = domain_of[b];
    for (std::size_t c = 0; c < cells(); ++c) {
      const double change = share[c * domain_of.size() + b] - share[c * domain_of.size() + a];
      at(c, p) += change;
      at(c, q) -= change;
    }
    std::swap(domain_of[a], domain_of[b]);
  }
};

DomainTable table_of(const LayerLoads& loads, const Topology& topology, std::span<const EpRankId> home) {
  DomainTable t{loads, topology.domains_per_group(), {}, {}};
  for (EpRankId r : home) t.domain_of.push_back(topology.domain_of(r));
  const auto width = home.size();
  for (std::size_t at = 0; at < loads.data.size(); at += width) {
    const auto row = std::span(loads.data).subspan(at, width);
    const double total = static_cast<double>(std::accumulate(row.begin(), row.end(), std::int64_t{0}));
    if (total == 0) continue;
    for (std::int64_t x : row) t.share.push_back(static_cast<double>(x) * t.domains / total);
  }
  t.fill();
  return t;
}

double climb(DomainTable t, std::int64_t moves, Random& random) {
  constexpr std::size_t kHistory = 2000;
  const auto experts = static_cast<std::uint32_t>(t.domain_of.size());
  for (std::uint32_t i = experts - 1; i > 0; --i) std::swap(t.domain_of[i], t.domain_of[random.below(i + 1)]);
  t.fill();
  double now = t.objective(), best = now;
  std::vector<double> history(kHistory, now);
  for (std::int64_t n = 0; n < moves; ++n) {
    const std::uint32_t a = random.below(experts), b = random.below(experts);
    if (t.domain_of[a] == t.domain_of[b]) continue;
    t.swap(a, b);
    const double after = t.objective();
    double& then = history[static_cast<std::size_t>(n) % kHistory];
    if (after <= now || after <= then)
      now = after;
    else
      t.swap(a, b);
    then = std::min(then, now);
    best = std::min(best, now);
  }
  return best;
}

}  // namespace

std::vector<EpRankId> contiguous_homes(int experts, int ep_size) {
  const auto placement = Placement::contiguous(1, experts, ep_size);
  const auto home = placement.layer(LayerId(0));
  return {home.begin(), home.end()};
}

LayerLoads random_loads(int micro_batches, int groups, int experts, std::uint64_t seed, std::uint64_t step,
                        double noise) {
  LayerLoads loads{micro_batches, groups, experts, {}};
  Random base(seed, 1), cell(seed, 2 + step);
  std::vector<double> popular;
  for (int e = 0; e < experts; ++e) popular.push_back(0.8 * base.normal());
  for (int c = 0; c < micro_batches * groups; ++c)
    for (double p : popular)
      loads.data.push_back(static_cast<std::int64_t>(1000 * std::exp(p + noise * cell.normal())));
  return loads;
}

double domain_objective(const LayerLoads& loads, const Topology& topology, std::span<const EpRankId> home) {
  return table_of(loads, topology, home).objective();
}

double best_objective(const LayerLoads& loads, const Topology& topology) {
  const auto experts = static_cast<std::size_t>(loads.experts);
  const int slots = home_slots(loads.experts, topology.ep_size) * topology.domain_size();
  auto t = table_of(loads, topology, std::vector<EpRankId>(experts, EpRankId(0)));
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t e = 0;;) {  // count in base `domains`
    bool fits = true;
    for (int d = 0; d < t.domains; ++d)
      fits &= std::count(t.domain_of.begin(), t.domain_of.end(), d) <= slots;
    if (fits) {
      t.fill();
      best = std::min(best, t.objective());
    }
    for (e = 0; e < experts && ++t.domain_of[e] == t.domains; ++e) t.domain_of[e] = 0;
    if (e == experts) return best;
  }
}

double late_acceptance(const LayerLoads& loads, const Topology& topology, std::int64_t moves,
                       std::uint64_t seed) {
  Random random(seed, 99);
  return climb(table_of(loads, topology, contiguous_homes(loads.experts, topology.ep_size)), moves, random);
}

std::vector<std::int64_t> rank_loads(const LayerLoads& loads, int ranks, std::span<const EpRankId> home) {
  std::vector<std::int64_t> sum(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < loads.data.size(); ++i) sum[home[i % home.size()].index()] += loads.data[i];
  return sum;
}

int most_homes(int ranks, std::span<const EpRankId> home) {
  std::vector<int> held(static_cast<std::size_t>(ranks));
  for (EpRankId r : home) ++held.at(r.index());
  return *std::max_element(held.begin(), held.end());
}

int count_moved(std::span<const EpRankId> before, std::span<const EpRankId> after) {
  int moved = 0;
  for (std::size_t e = 0; e < before.size(); ++e) moved += before[e] != after[e];
  return moved;
}

namespace {

// Loads 6 2 | 3 1 and 0 0 | 4 4 on two domains: 8/6 and 8/4.
TEST(ReorderCases, ObjectiveByHand) {
  const LayerLoads loads{2, 1, 4, {6, 2, 3, 1, 0, 0, 4, 4}};
  const Topology topology{2, 1, 1};
  EXPECT_DOUBLE_EQ(domain_objective(loads, topology, contiguous_homes(4, 2)), 8 / 6.0 + 8 / 4.0);
  // Best: {6, .} with a 4 each: 6+1 | 2+3 gives 7/6 and 1.
  EXPECT_DOUBLE_EQ(best_objective(loads, topology), 7 / 6.0 + 1);
}

}  // namespace
}  // namespace relibra
