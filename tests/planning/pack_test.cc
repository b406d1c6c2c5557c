#include "lib/planning/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "lib/base/error.h"
#include "lib/base/random.h"

namespace relibra {
namespace {

using testing::ElementsAre;

RoutingDump dump_of(std::vector<std::int64_t> lengths, int optimizer_steps = 1) {
  RoutingDump dump;
  dump.header.optimizer_steps = optimizer_steps;
  dump.sequences.row_offset.resize(lengths.size() + 1);
  dump.sequences.num_tokens = std::move(lengths);
  return dump;
}

RoutingDump random_dump(std::uint64_t seed, std::size_t sequences, int optimizer_steps = 1) {
  Random random(seed);
  std::vector<std::int64_t> lengths;
  for (std::size_t s = 0; s < sequences; ++s) {
    const std::uint32_t kind = random.below(20);
    lengths.push_back(kind == 0 ? 0 : kind == 1 ? 3000 + random.below(3000) : 1 + random.below(1500));
  }
  RoutingDump dump = dump_of(std::move(lengths), optimizer_steps);
  if (seed % 2 == 0)
    for (std::size_t s = 0; s < sequences; ++s) dump.sequences.group.push_back(static_cast<int>(s / 8) * 3);
  return dump;
}

/// Tokens of every (micro-batch, share).
std::map<std::pair<int, int>, std::int64_t> share_loads(const RoutingDump& dump, const Packing& packing) {
  std::map<std::pair<int, int>, std::int64_t> load;
  for (std::size_t s = 0; s < packing.share.size(); ++s)
    load[{packing.micro_batch[s], packing.share[s]}] += dump.sequences.num_tokens[s];
  return load;
}

void expect_whole(const RoutingDump& dump, const Packing& packing, int world) {
  ASSERT_EQ(static_cast<std::int64_t>(packing.micro_batch.size()), dump.sequences.size());
  ASSERT_EQ(packing.share.size(), packing.micro_batch.size());
  EXPECT_EQ(packing.micro_batches % dump.header.optimizer_steps, 0);
  for (std::size_t s = 0; s < packing.share.size(); ++s) {
    EXPECT_TRUE(packing.micro_batch[s] >= 0 && packing.micro_batch[s] < packing.micro_batches);
    EXPECT_TRUE(packing.share[s] >= 0 && packing.share[s] < world);
  }
}

void expect_groups_in_one_step(const RoutingDump& dump, const Packing& packing) {
  const int each = packing.micro_batches / dump.header.optimizer_steps;
  std::map<int, std::set<int>> steps;
  for (std::size_t s = 0; s < dump.sequences.group.size(); ++s)
    steps[dump.sequences.group[s]].insert(packing.micro_batch[s] / each);
  for (const auto& [group, in] : steps) EXPECT_EQ(in.size(), 1u) << "group " << group;
}

// The example of pack.h.
TEST(FormMicroBatches, SharesOfLikeLengthMakeAMicroBatch) {
  const auto packing = form_micro_batches(dump_of({5, 4, 3, 3}), {2, 1, 2}, {.micro_batches = 2});
  EXPECT_EQ(packing.micro_batches, 2);
  EXPECT_THAT(packing.micro_batch, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(packing.share, ElementsAre(0, 1, 0, 1));
}

// 22 tokens in shares of at most 6, two to a micro-batch: 6 | 5+1 | 4+2 | 3+1, two micro-batches.
TEST(FormMicroBatches, AsFewAsTheBudgetAllows) {
  const RoutingDump dump = dump_of({6, 5, 4, 3, 2, 1, 1});
  const auto packing = form_micro_batches(dump, {2, 1, 2}, {.tokens_per_micro_batch = 6});
  EXPECT_EQ(packing.micro_batches, 2);
  for (const auto& [share, tokens] : share_loads(dump, packing)) EXPECT_LE(tokens, 6);
}

// Largest first onto 2 ranks would give 3+2+2 = 7 and 3+2 = 5; a budget of 6 is met by 3+3 and 2+2+2.
TEST(FormMicroBatches, FindsATightFitThatLargestFirstMisses) {
  const RoutingDump dump = dump_of({3, 3, 2, 2, 2});
  const auto packing = form_micro_batches(dump, {2, 1, 2}, {.tokens_per_micro_batch = 6});
  EXPECT_EQ(packing.micro_batches, 1);
  for (const auto& [share, tokens] : share_loads(dump, packing)) EXPECT_EQ(tokens, 6);
}

TEST(FormMicroBatches, ASequenceOverTheBudgetIsAlone) {
  const auto packing = form_micro_batches(dump_of({3, 10, 3}), {2, 1, 2}, {.tokens_per_micro_batch = 6});
  EXPECT_EQ(packing.micro_batches, 1);
  EXPECT_EQ(packing.share[0], packing.share[2]);
  EXPECT_NE(packing.share[0], packing.share[1]);
}

// Groups 7, 5, 9, 1 of 6, 4, 3 and 3 tokens, whole, onto two steps: 6 | 4+3, then 6+3.
TEST(FormMicroBatches, PromptGroupsStayInOneOptimizerStep) {
  RoutingDump dump = dump_of({3, 3, 2, 2, 2, 1, 1, 2}, 2);
  dump.sequences.group = {7, 7, 5, 5, 9, 9, 1, 1};
  const auto packing = form_micro_batches(dump, {2, 1, 2}, {.micro_batches = 4});
  expect_groups_in_one_step(dump, packing);
  EXPECT_EQ(packing.micro_batch[0] / 2, packing.micro_batch[6] / 2);
  EXPECT_EQ(packing.micro_batch[2] / 2, packing.micro_batch[4] / 2);
}

// Rank 0 holds 5 4 1, rank 1 holds 2 2: two micro-batches of shares 5, 4+1 and 2, 2.
TEST(FormMicroBatches, KeepsSourceRanksThatAreGiven) {
  RoutingDump dump = dump_of({5, 2, 4, 2, 1});
  dump.sequences.source_rank = {0, 1, 0, 1, 0};
  const auto packing = form_micro_batches(dump, {2, 1, 2}, {.micro_batches = 2});
  EXPECT_THAT(packing.share, ElementsAre(0, 1, 0, 1, 0));
  EXPECT_NE(packing.micro_batch[0], packing.micro_batch[2]);
  EXPECT_EQ(packing.micro_batch[2], packing.micro_batch[4]);
  EXPECT_NE(packing.micro_batch[1], packing.micro_batch[3]);
}

// A rank that needs more micro-batches than the others sets their number for all.
TEST(FormMicroBatches, TheFullestRankSetsTheNumber) {
  RoutingDump dump = dump_of({5, 5, 5, 1});
  dump.sequences.source_rank = {0, 0, 0, 1};
  EXPECT_EQ(form_micro_batches(dump, {2, 1, 2}, {.tokens_per_micro_batch = 6}).micro_batches, 3);
}

TEST(FormMicroBatches, KeepsMicroBatchesThatAreGiven) {
  RoutingDump dump = dump_of({5, 4, 3, 3});
  dump.sequences.micro_batch = {2, 0, 0, 0};
  auto packing = form_micro_batches(dump, {2, 1, 2}, {});
  EXPECT_EQ(packing.micro_batches, 3);
  EXPECT_EQ(packing.micro_batch, dump.sequences.micro_batch);
  EXPECT_THAT(packing.share, ElementsAre(0, 1, 0, 0));  // micro-batch 0: 3+3 and 4, the largest share first
  dump.header.num_micro_batches = 4;
  EXPECT_EQ(form_micro_batches(dump, {2, 1, 2}, {}).micro_batches, 4);
}

TEST(FormMicroBatches, TheDumpsNumberIsTheNumberToForm) {
  RoutingDump dump = dump_of({5, 4, 3, 3});
  dump.header.num_micro_batches = 2;
  EXPECT_THAT(form_micro_batches(dump, {2, 1, 2}, {}).micro_batch, ElementsAre(0, 0, 1, 1));
}

TEST(FormMicroBatches, FewSequencesOrNone) {
  const auto few = form_micro_batches(dump_of({5, 4}), {4, 1, 4}, {.micro_batches = 3});
  EXPECT_EQ(few.micro_batches, 3);
  EXPECT_THAT(few.micro_batch, ElementsAre(0, 0));
  const auto none = form_micro_batches(dump_of({}, 2), {4, 1, 4}, {.tokens_per_micro_batch = 10});
  EXPECT_EQ(none.micro_batches, 2);
  EXPECT_TRUE(none.micro_batch.empty());
  const auto empty = form_micro_batches(dump_of({0, 0, 7}), {2, 1, 2}, {.tokens_per_micro_batch = 7});
  EXPECT_EQ(empty.micro_batches, 1);
}

TEST(FormMicroBatches, RefusesOptionsThatContradictTheDump) {
  const auto fault_of = [](const RoutingDump& dump, const PackOptions& options) {
    try {
      form_micro_batches(dump, {2, 1, 2}, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::usage);
      return std::string(error.what());
    }
    return std::string();
  };
  RoutingDump given = dump_of({5, 4});
  EXPECT_THAT(fault_of(given, {}), testing::HasSubstr("--tokens-per-micro-batch"));
  EXPECT_THAT(fault_of(given, {2, 10}), testing::HasSubstr("both"));
  EXPECT_THAT(fault_of(dump_of({5, 4}, 2), {.micro_batches = 3}), testing::HasSubstr("multiple"));
  given.sequences.micro_batch = {0, 1};
  EXPECT_THAT(fault_of(given, {.micro_batches = 3}), testing::HasSubstr("2, as the dump has"));
  EXPECT_THAT(fault_of(given, {.tokens_per_micro_batch = 9}), testing::HasSubstr("--tokens-per-micro-batch"));
  EXPECT_EQ(fault_of(given, {.micro_batches = 2}), "");
}

TEST(FormMicroBatches, KeepsToTheBudgetOnRandomLengths) {
  constexpr std::int64_t kBudget = 4000;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const int world = 1 << (seed % 5), steps = 1 + static_cast<int>(seed % 3);
    RoutingDump dump = random_dump(seed, 40 * (seed % 7) + seed, steps);
    if (seed % 4 == 3)
      for (std::size_t s = 0; s < dump.sequences.num_tokens.size(); ++s)
        dump.sequences.source_rank.push_back(static_cast<int>(s) % world);
    const auto packing = form_micro_batches(dump, {world, 1, world}, {.tokens_per_micro_batch = kBudget});
    expect_whole(dump, packing, world);
    expect_groups_in_one_step(dump, packing);
    std::map<std::pair<int, int>, std::int64_t> longest;
    for (std::size_t s = 0; s < packing.share.size(); ++s) {
      auto& l = longest[{packing.micro_batch[s], packing.share[s]}];
      l = std::max(l, dump.sequences.num_tokens[s]);
    }
    std::int64_t total = 0;
    for (const auto& [share, tokens] : share_loads(dump, packing)) {
      EXPECT_LE(tokens, std::max(kBudget, longest[share])) << "seed " << seed;
      total += tokens;
    }
    if (seed % 4 == 3) continue;  // ranks that are given may be uneven
    // No fewer than the tokens need; not many more, though some sequences take a share for themselves.
    EXPECT_GE(packing.micro_batches, total / (kBudget * world * 2));
    EXPECT_LE(packing.micro_batches, steps * (1 + 3 * total / (2 * kBudget * world * steps) + 1))
        << "seed " << seed;
  }
}

TEST(FormMicroBatches, SharesAreEvenWhereThereAreEnoughSequences) {
  RoutingDump dump = dump_of({});
  Random random(4);
  for (int s = 0; s < 2000; ++s) dump.sequences.num_tokens.push_back(100 + random.below(1000));
  dump.sequences.row_offset.resize(2001);
  const auto packing = form_micro_batches(dump, {8, 1, 8}, {.micro_batches = 10});
  std::int64_t most = 0, least = INT64_MAX;
  for (const auto& [share, tokens] : share_loads(dump, packing)) {
    most = std::max(most, tokens);
    least = std::min(least, tokens);
  }
  EXPECT_LE(most - least, least / 50);
}

}  // namespace
}  // namespace relibra
