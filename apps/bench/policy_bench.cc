// The planners of others on one core: EPLB for the layers of a whole model, UltraEP's quotas for a layer and
// micro-batch of its own workload.
//
//   policy_bench
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "apps/bench/timing.h"
#include "lib/base/random.h"
#include "lib/planning/eplb.h"
#include "lib/planning/quota.h"

namespace {

using namespace relibra;
using bench::median_seconds;

constexpr int kRepeats = 9;

void run_eplb(const char* name, int layers, int experts, const EplbShape& shape) {
  Random random(1);
  std::vector<std::vector<float>> loads(static_cast<std::size_t>(layers));
  for (auto& layer : loads)
    for (int e = 0; e < experts; ++e)
      layer.push_back(std::floor(10'000 * static_cast<float>(std::exp(0.8 * random.normal()))));
  std::int64_t sink = 0;
  const double seconds = median_seconds(kRepeats, [&] {
    for (const auto& layer : loads) sink += eplb(layer, shape).front();
  });
  std::vector<float> sorted;
  const double sorts = median_seconds(kRepeats, [&] {
    for (const auto& layer : loads) {
      sorted = layer;
      std::sort(sorted.begin(), sorted.end());
      sink += static_cast<std::int64_t>(sorted.front());
    }
  });
  std::printf("eplb %-12s %d x %d -> %d on %d: %6.2f ms, %5.1f us a layer, %5.1f sorts of its loads%s\n",
              name, layers, experts, shape.slots, shape.ranks, 1e3 * seconds, 1e6 * seconds / layers,
              seconds / sorts, sink == 1 ? " " : "");
}

/// Tokens of UltraEP's workload: weight (rank + 1)^-a * (index + 1)^-4, eight experts a token and none twice:
/// an expert is among them with 1 - exp(-s w), s such that these add up to eight.
std::vector<std::int64_t> workload(double a, Random& random) {
  constexpr int kRanks = 64, kPerRank = 4;
  constexpr double kTokens = 64 * 8192, kTop = 8;
  std::vector<double> weight;
  for (int r = 0; r < kRanks; ++r)
    for (int i = 0; i < kPerRank; ++i) weight.push_back(std::pow(r + 1, -a) * std::pow(i + 1, -4));
  double low = 0, high = 1e3;
  for (int halving = 0; halving < 60; ++halving) {
    const double s = (low + high) / 2;
    double sum = 0;
    for (const double w : weight) sum += 1 - std::exp(-s * w);
    (sum > kTop ? high : low) = s;
  }
  std::vector<std::int64_t> load;
  for (const double w : weight) {
    const double tokens = kTokens * (1 - std::exp(-low * w));
    load.push_back(std::llround(tokens + std::sqrt(tokens) * random.normal()));
  }
  for (std::int64_t& l : load) l = std::max<std::int64_t>(l, 0);
  return load;
}

void run_quotas(double a) {
  constexpr int kCells = 200;
  Random random(2);
  std::vector<std::int32_t> home;
  for (int e = 0; e < 256; ++e) home.push_back(e / 4);
  std::vector<std::vector<std::int64_t>> cells;
  for (int i = 0; i < kCells; ++i) cells.push_back(workload(a, random));
  double before = 0, after = 0, copies = 0;
  const double seconds = median_seconds(kRepeats, [&] {
    before = after = copies = 0;
    for (const auto& cell : cells) {
      const DomainPlan plan = plan_quotas({64, home, cell}, {.slots = 2});
      std::int64_t most = 0;
      for (std::size_t e = 0; e < cell.size(); e += 4)
        most = std::max(most, cell[e] + cell[e + 1] + cell[e + 2] + cell[e + 3]);
      before += static_cast<double>(most) / static_cast<double>(plan.bound);
      after += static_cast<double>(plan.max_load) / static_cast<double>(plan.bound);
      copies += static_cast<double>(plan.quotas.size());
    }
  });
  std::printf("ultraep EP64 E256 V2: %5.2f us a layer, skew %.3f to %.3f, %.1f copies\n",
              1e6 * seconds / kCells, before / kCells, after / kCells, copies / kCells);
}

}  // namespace

int main() {
  run_eplb("hierarchical", 94, 128, {.slots = 160, .groups = 8, .nodes = 4, .ranks = 32});
  run_eplb("global", 94, 128, {.slots = 160, .groups = 1, .nodes = 4, .ranks = 32});
  for (double a : {0.14, 0.244, 0.408})
    run_quotas(a);  // slowest rank over mean as published: 1.51, 2.01, 3.03
}
