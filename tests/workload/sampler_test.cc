#include "lib/workload/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "lib/workload/draw.h"

namespace relibra::workload {
namespace {

TEST(AliasTables, DrawByWeight) {
  AliasTables tables(4);
  const std::vector<double> weights{1, 0.5, 6, 2.5};  // of 10
  tables.build(3, weights);
  RunRandom random(1, 0);
  std::array<double, 4> share{};
  for (int i = 0; i < 200000; ++i) share[tables.draw(3, random.next())] += 1.0 / 200000;
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(share[i], weights[i] / 10, 0.005);
}

// The exact share of each index over all columns and thresholds, for sizes that are no powers of two too.
TEST(AliasTables, SharesAreExactUpToRounding) {
  for (const int size : {1, 2, 3, 60, 160, 256, 257}) {
    Random random(static_cast<std::uint64_t>(size));
    std::vector<double> weights;
    double sum = 0;
    for (int i = 0; i < size; ++i) sum += weights.emplace_back(std::exp(1.5 * random.normal()));
    AliasTables tables(size);
    tables.build(1, weights);
    std::vector<double> share(weights.size());
    const int bits = tables.index_bits();
    for (std::size_t column = 0; column < share.size(); ++column) {
      const std::uint32_t entry = tables.entries()[static_cast<std::size_t>(size) + column];
      const double keep = std::ldexp(entry >> bits, bits - 32);
      share[column] += keep / size;
      share[entry & ((1u << bits) - 1)] += (1 - keep) / size;
    }
    for (std::size_t i = 0; i < share.size(); ++i)
      EXPECT_NEAR(share[i], weights[i] / sum, 1e-6) << size << " " << i;
  }
}

TEST(Gamma, HasTheMeanAndVarianceOfItsShape) {
  Random random(2);
  for (const double shape : {0.1, 1.0, 12.0}) {
    double sum = 0, squares = 0;
    const int n = 200000;
    for (int i = 0; i < n; ++i) {
      const double x = gamma(random, shape);
      sum += x / n;
      squares += x * x / n;
    }
    EXPECT_NEAR(sum, shape, 0.02 * std::sqrt(shape));
    EXPECT_NEAR(squares - sum * sum, shape, 0.04 * shape);
  }
}

/// One layer, one domain, weights that hang on the expert alone.
struct Fixed {
  WorkloadOptions options;
  LayerTerms terms;
  explicit Fixed(const std::vector<double>& weights, int top_k) {
    options.experts = static_cast<int>(weights.size());
    options.top_k = top_k;
    options.sd_prompt = 0;
    options.gamma_shape = 1e8;
    for (const double w : weights) terms.logit.push_back(std::log(w));
    terms.type_weight.assign(weights.size() * kTypes, 1.0);
    terms.mix.emplace_back().fill(1.0 / kTypes);
  }
};

// Weights 1 2 3 4: P(first i, then j) = w_i / 10 * w_j / (10 - w_i).
TEST(SequenceSampler, DrawsPairsWithoutReplacementByWeight) {
  const std::vector<double> weights{1, 2, 3, 4};
  const Fixed fixed(weights, 2);
  SequenceSampler sampler(fixed.options);
  sampler.begin(fixed.terms, 0, 0, 0, 0);
  const std::int64_t rows = 400000;
  std::vector<std::uint8_t> ids(static_cast<std::size_t>(rows) * 2);
  sampler.sample({0, rows}, ids.data(), 2);
  std::map<std::pair<int, int>, double> share;
  for (std::size_t r = 0; r < ids.size(); r += 2)
    share[{ids[r], ids[r + 1]}] += 1.0 / static_cast<double>(rows);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const double wi = weights[static_cast<std::size_t>(i)], wj = weights[static_cast<std::size_t>(j)];
      const double expected = i == j ? 0 : wi / 10 * wj / (10 - wi);
      EXPECT_NEAR((share[{i, j}]), expected, 0.003) << i << " " << j;
    }
}

// One expert has nearly all the weight: the second pick comes from the scan of the rest, still by weight.
TEST(SequenceSampler, LightRestIsDrawnByWeightToo) {
  const Fixed fixed({1e9, 1, 3}, 2);
  SequenceSampler sampler(fixed.options);
  sampler.begin(fixed.terms, 0, 0, 0, 0);
  const std::int64_t rows = 20000;
  std::vector<std::int16_t> ids(static_cast<std::size_t>(rows) * 2);
  sampler.sample({0, rows}, ids.data(), 2);
  int heavy = 0, third = 0;
  for (std::size_t r = 0; r < ids.size(); r += 2) {
    heavy += ids[r] == 0 ? 1 : 0;
    third += ids[r + 1] == 2 ? 1 : 0;
  }
  EXPECT_EQ(heavy, rows);
  EXPECT_NEAR(third / static_cast<double>(rows), 0.75, 0.02);
}

// Runs of 4 rows share a type: with one expert a type, K = 1, the ids of a run are equal and neighbours
// differ.
TEST(SequenceSampler, TypesComeInRunsOfFour) {
  Fixed fixed(std::vector<double>(kTypes, 1.0), 1);
  for (std::size_t t = 0; t < kTypes; ++t)
    for (std::size_t e = 0; e < kTypes; ++e) fixed.terms.type_weight[t * kTypes + e] = t == e ? 1 : 1e-12;
  SequenceSampler sampler(fixed.options);
  sampler.begin(fixed.terms, 0, 0, 0, 0);
  std::vector<std::uint8_t> ids(4000);
  sampler.sample({0, 4000}, ids.data(), 1);
  int changes = 0;
  for (std::size_t r = 0; r < ids.size(); ++r) {
    ASSERT_EQ(ids[r], ids[r / 4 * 4]);
    changes += r >= 4 && r % 4 == 0 && ids[r] != ids[r - 4] ? 1 : 0;
  }
  EXPECT_GT(changes, 500);  // of 999; 7/8 of them for even shares
}

// Every shape that 16 runs side by side can do, with rows that need the rest drawn, and cuts anywhere.
TEST(SequenceSampler, SideBySideIsTheSameAsSingle) {
  using Method = SequenceSampler::Method;
  for (const auto& [experts, top_k, spread] : {std::tuple{128, 8, 1.2},
                                               {256, 8, 1.2},
                                               {8, 2, 1.0},
                                               {5, 5, 1.0},
                                               {60, 6, 4.0},
                                               {1, 1, 1.0},
                                               {160, 7, 3.0}}) {
    SCOPED_TRACE(experts);
    Random random(static_cast<std::uint64_t>(experts));
    std::vector<double> weights;
    for (int e = 0; e < experts; ++e) weights.push_back(std::exp(spread * random.normal()));
    const Fixed fixed(weights, top_k);
    if (!can_draw_runs(AliasTables(experts), {top_k, 10})) GTEST_SKIP() << "no AVX-512 here";
    SequenceSampler single(fixed.options, Method::single), batch(fixed.options, Method::side_by_side);
    single.begin(fixed.terms, 0, 0, 0, 0);
    batch.begin(fixed.terms, 0, 0, 0, 0);
    for (const Range rows : {Range{0, 500}, {3, 70}, {64, 65}, {1, 131}}) {
      std::vector<std::uint8_t> a(static_cast<std::size_t>(rows.size() * top_k)), b(a.size());
      single.sample(rows, a.data(), top_k);
      batch.sample(rows, b.data(), top_k);
      EXPECT_EQ(a, b);
    }
  }
}

}  // namespace
}  // namespace relibra::workload
