#include "lib/workload/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "lib/base/error.h"
#include "lib/comm/comm.h"
#include "lib/count/count.h"

namespace relibra {
namespace {

WorkloadOptions small(int layers = 2) {
  auto options = workload_options(model_preset("qwen3-30b"));
  options.layers = layers;
  options.sequences = 64;
  options.micro_batches = 8;
  options.scale = 1.0 / 64;
  return options;
}

std::vector<std::byte> rows_of(RoutingSource& source, const std::vector<Range>& ranges,
                               std::size_t block_bytes) {
  std::vector<std::byte> all;
  const auto& header = source.dump().header;
  source.read(ranges, block_bytes, false, [&](const RoutingBlock& block) {
    const auto bytes =
        static_cast<std::size_t>(block.rows * header.num_layers() * header.top_k) * size_of(block.type);
    const auto* first = static_cast<const std::byte*>(block.ids);
    all.insert(all.end(), first, first + bytes);
  });
  return all;
}

/// Mean over micro-batches and layers of max / mean over `ranks` contiguous blocks of experts.
double static_skew(const WorkloadOptions& options, int ranks) {
  const auto source = make_workload(options);
  const auto counted = count_routing(Comm::world(), *source, {});
  const auto& micro_batch = source->dump().sequences.micro_batch;
  double sum = 0;
  for (int l = 0; l < options.layers; ++l) {
    std::vector<std::vector<double>> load(static_cast<std::size_t>(options.micro_batches),
                                          std::vector<double>(static_cast<std::size_t>(ranks)));
    for (std::int64_t s = 0; s < options.sequences; ++s) {
      const auto counts = counted.counts.of(LayerId(l), s);
      for (int e = 0; e < options.experts; ++e)
        load[static_cast<std::size_t>(micro_batch[static_cast<std::size_t>(s)])]
            [static_cast<std::size_t>(e * ranks / options.experts)] += counts[static_cast<std::size_t>(e)];
    }
    for (const auto& of_ranks : load)
      sum += *std::max_element(of_ranks.begin(), of_ranks.end()) * ranks /
             std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0);
  }
  return sum / options.micro_batches / options.layers;
}

/// (E) total counts of a layer as shares.
std::vector<double> shares(const WorkloadOptions& options, int layer, std::string_view domain = "") {
  const auto source = make_workload(options);
  const auto counted = count_routing(Comm::world(), *source, {});
  std::vector<double> share(static_cast<std::size_t>(options.experts));
  double sum = 0;
  for (std::int64_t s = 0; s < options.sequences; ++s) {
    if (!domain.empty() && source->dump().sequences.domain[static_cast<std::size_t>(s)] != domain) continue;
    const auto counts = counted.counts.of(LayerId(layer), s);
    for (std::size_t e = 0; e < share.size(); ++e) share[e] += counts[e], sum += counts[e];
  }
  for (double& x : share) x /= sum;
  return share;
}

double correlation_of_logs(const std::vector<double>& a, const std::vector<double>& b) {
  double ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;
  const auto n = static_cast<double>(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) ma += std::log(a[i]) / n, mb += std::log(b[i]) / n;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = std::log(a[i]) - ma, y = std::log(b[i]) - mb;
    ab += x * y, aa += x * x, bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

TEST(Presets, AreFoundByNameAndAnUnknownNameListsAll) {
  EXPECT_EQ(model_preset("deepseek-v3").experts, 256);
  EXPECT_EQ(model_preset("glm4.5").first_layer, 3);
  try {
    model_preset("gpt");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_THAT(error.what(), testing::HasSubstr("qwen3-235b, glm4.5"));
  }
}

TEST(Workload, RowsDoNotDependOnRangesBlocksOrThreads) {
  auto options = small(3);
  options.missing_share = 0.02;
  const auto source = make_workload(options);
  const std::int64_t rows = source->dump().sequences.total_rows();
  const auto whole = rows_of(*source, {{0, rows}}, 1 << 20);
  EXPECT_EQ(whole.size(), static_cast<std::size_t>(rows * 3 * 8));
  EXPECT_EQ(rows_of(*source, {{0, 1}, {1, 777}, {777, rows}}, 999), whole);
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  EXPECT_EQ(rows_of(*make_workload(options), {{0, rows}}, 1 << 16), whole);
  omp_set_num_threads(before);
  options.seed = 2;
  EXPECT_NE(rows_of(*make_workload(options), {{0, 50}}, 1 << 20),
            std::vector(whole.begin(), whole.begin() + 50 * 24));
}

TEST(Workload, ColumnsAreThoseOfTheReference) {
  auto options = small();
  options.source_ranks = 4;
  const auto source = make_workload(options);
  const auto& columns = source->dump().sequences;
  ASSERT_EQ(columns.size(), 64);
  for (std::size_t s = 0; s < 64; ++s) {
    EXPECT_EQ(columns.micro_batch[s], static_cast<int>(s) / 8);
    EXPECT_EQ(columns.source_rank[s], static_cast<int>(s) % 8 / 2);
    EXPECT_EQ(columns.group[s], static_cast<int>(s) / 8);
    EXPECT_EQ(columns.domain[s], columns.domain[s / 8 * 8]);
    EXPECT_EQ(columns.num_tokens[s], columns.rows(static_cast<std::int64_t>(s)) + 1);
    EXPECT_GE(columns.num_tokens[s], 1024 / 64);
    EXPECT_LE(columns.num_tokens[s], 16384 / 64);
  }
  options.fixed_micro_batches = false;
  options.source_ranks = 0;
  const auto free = make_workload(options);
  EXPECT_TRUE(free->dump().sequences.micro_batch.empty());
  EXPECT_TRUE(free->dump().sequences.source_rank.empty());
  EXPECT_EQ(free->dump().header.num_micro_batches, 8);
}

TEST(Workload, EveryRowIsValidAndTheMissingShareIsMet) {
  for (const auto& [experts, top_k, missing, type] : {std::tuple{128, 8, 0.0, IdType::u8},
                                                      {256, 8, 0.0, IdType::u8},
                                                      {256, 8, 0.1, IdType::i16},
                                                      {255, 8, 0.1, IdType::u8},
                                                      {5, 5, 0.0, IdType::u8},
                                                      {300, 2, 0.05, IdType::i16}}) {
    auto options = small();
    options.experts = experts;
    options.top_k = top_k;
    options.missing_share = missing;
    const auto source = make_workload(options);
    EXPECT_EQ(source->id_type(), type);
    const auto findings = count_routing(Comm::world(), *source, {.max_missing = 1}).findings;
    const auto all = static_cast<double>(findings.missing + findings.assignments);
    EXPECT_NEAR(static_cast<double>(findings.missing) / all, missing, 0.02);
  }
}

TEST(Workload, OptionsThatContradictAreRefused) {
  auto options = small();
  options.id_type = IdType::i8;  // 127 at most
  EXPECT_NO_THROW(make_workload(options));
  options.experts = 129;
  EXPECT_THROW(make_workload(options), Error);
  options = small();
  options.top_k = 129;
  EXPECT_THROW(make_workload(options), Error);
}

// planning.md: the mean static skew of the reference is 1.74 at EP16 and 2.37 at EP32 with 128 experts; at a
// small scale, where single tokens matter more and sequences are shorter, it moves by some per cent.
TEST(Workload, StaticSkewIsThatOfTheReference) {
  double ep16 = 0, ep32 = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    auto options = workload_options(model_preset("qwen3-30b"));
    options.layers = 4;
    options.scale = 1.0 / 64;
    options.seed = seed;
    ep16 += static_skew(options, 16) / 3;
    ep32 += static_skew(options, 32) / 3;
  }
  EXPECT_NEAR(ep16, 1.65, 0.15);
  EXPECT_NEAR(ep32, 2.25, 0.25);
}

TEST(Workload, TheNextStepResemblesThisOne) {
  auto options = small(1);
  options.sequences = 512;
  const auto first = shares(options, 0);
  options.step = 1;
  const auto second = shares(options, 0);
  options.seed = 9;
  const auto other = shares(options, 0);
  EXPECT_NE(first, second);
  EXPECT_GT(correlation_of_logs(first, second), 0.9);
  EXPECT_LT(std::abs(correlation_of_logs(first, other)), 0.4);
}

// Without other terms the shares are those of the measured counts; K = 1 keeps them free of saturation.
TEST(Workload, MeasuredPopularityIsMetPerDomainAndLayer) {
  auto options = small(2);
  options.experts = 4;
  options.top_k = 1;
  options.sequences = 512;
  options.scale = 1.0 / 16;
  options.sd_type = options.sd_prompt = 0;
  options.gamma_shape = 1e6;
  options.popularity = MeasuredPopularity{.domains = {"x", "y"},
                                          .layers = {0, 7},
                                          .experts = 4,
                                          .counts = {100, 200, 300, 400, 400, 300, 200, 100,    // x
                                                     700, 100, 100, 100, 250, 250, 250, 250}};  // y
  const auto near = [](std::vector<double> expected) {
    std::vector<testing::Matcher<double>> each;
    for (const double x : expected) each.push_back(testing::DoubleNear(x, 0.01));
    return testing::ElementsAreArray(each);
  };
  EXPECT_THAT(shares(options, 0, "x"), near({0.1, 0.2, 0.3, 0.4}));
  EXPECT_THAT(shares(options, 1, "x"), near({0.4, 0.3, 0.2, 0.1}));
  EXPECT_THAT(shares(options, 0, "y"), near({0.7, 0.1, 0.1, 0.1}));
  EXPECT_THAT(shares(options, 1, "y"), near({0.25, 0.25, 0.25, 0.25}));

  // Twice the experts: each measured one stands twice, in some order.
  options.experts = 8;
  auto doubled = shares(options, 0, "x");
  std::sort(doubled.begin(), doubled.end());
  EXPECT_THAT(doubled, near({0.05, 0.05, 0.1, 0.1, 0.15, 0.15, 0.2, 0.2}));
}

}  // namespace
}  // namespace relibra
