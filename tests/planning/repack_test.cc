#include "lib/planning/repack.h"

#include <gmock/gmock.h>

#include <map>

#include "lib/base/random.h"

namespace relibra {
namespace {

using testing::ElementsAre;

/// Sum over (micro-batch, group, layer) of the fullest node, from scratch.
std::int64_t slow_sum(const SequenceNodeLoads& loads, const Packing& packing,
                      std::span<const std::int32_t> group) {
  std::map<std::tuple<int, int, int>, std::vector<std::int64_t>> cells;
  for (std::size_t s = 0; s < group.size(); ++s)
    for (int l = 0; l < loads.layers; ++l) {
      auto& nodes = cells[{packing.micro_batch[s], group[s], l}];
      nodes.resize(static_cast<std::size_t>(loads.nodes));
      for (int n = 0; n < loads.nodes; ++n)
        nodes[static_cast<std::size_t>(n)] +=
            loads.of(static_cast<std::int64_t>(s))[static_cast<std::size_t>(n * loads.layers + l)];
    }
  std::int64_t sum = 0;
  for (const auto& [cell, nodes] : cells) sum += *std::max_element(nodes.begin(), nodes.end());
  return sum;
}

RoutingDump dump_of(const std::vector<std::int32_t>& tokens) {
  RoutingDump dump;
  for (const std::int32_t n : tokens) {
    dump.sequences.row_offset.push_back(dump.sequences.row_offset.back() + n);
    dump.sequences.num_tokens.push_back(n);
  }
  return dump;
}

// 2 nodes, 1 layer. Micro-batch 0 holds loads 4 0 and 3 1, micro-batch 1 holds 0 4 and 1 3: the fuller node
// has 7 in both. Swapping the sequences 0 and 2 leaves 0+3, 4+1 = 3 5 and 4+1, 0+3 = 5 3: 14 becomes 10.
// Swapping 0 and 3 would leave 1+3, 3+1 = 4 4 and 0+4, 4+0 = 4 4: 8, the least there is.
TEST(Repack, FindsTheSwapThatEvensOut) {
  const RoutingDump dump = dump_of({4, 4, 4, 4});
  const SequenceNodeLoads loads{2, 1, {4, 0, 3, 1, 0, 4, 1, 3}};
  Packing packing{2, {0, 0, 1, 1}, {0, 0, 0, 0}};
  std::vector<std::int32_t> group(4, 0);
  const RepackResult result = repack(dump, loads, 1, packing, group);
  EXPECT_EQ(result.before, 14);
  EXPECT_EQ(result.after, slow_sum(loads, packing, group));
  EXPECT_EQ(result.after, 8);
}

// The same, but the sequences that would have to change places are not alike, or in different optimizer
// steps, or on different source ranks.
TEST(Repack, LeavesWhatMayNotMove) {
  const SequenceNodeLoads loads{2, 1, {4, 0, 3, 1, 0, 4, 1, 3}};
  std::vector<std::int32_t> group(4, 0);
  const auto unmoved = [&](const RoutingDump& dump, std::vector<std::int32_t> share) {
    Packing packing{2, {0, 0, 1, 1}, share};
    EXPECT_EQ(repack(dump, loads, 1, packing, group).swaps, 0);
    EXPECT_THAT(packing.micro_batch, ElementsAre(0, 0, 1, 1));
  };
  unmoved(dump_of({40, 40, 50, 50}), {0, 0, 0, 0});
  RoutingDump steps = dump_of({4, 4, 4, 4});
  steps.header.optimizer_steps = 2;
  unmoved(steps, {0, 0, 0, 0});
  RoutingDump ranks = dump_of({4, 4, 4, 4});
  ranks.sequences.source_rank = {0, 0, 1, 1};
  unmoved(ranks, {0, 0, 1, 1});
}

TEST(Repack, RandomCasesKeepTheirPromises) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const int steps = 1 + static_cast<int>(random.below(2)), each = 2 + static_cast<int>(random.below(3));
    const int groups = 1 + static_cast<int>(random.below(2)), shares = 4;
    const bool fixed_ranks = random.below(3) == 0;
    SequenceNodeLoads loads{
        1 + static_cast<int>(random.below(3)), 1 + static_cast<int>(random.below(20)), {}};
    std::vector<std::int32_t> tokens;
    Packing packing{steps * each, {}, {}};
    std::vector<std::int32_t> group;
    for (int s = 0; s < 60; ++s) {
      tokens.push_back(static_cast<std::int32_t>(90 + random.below(20)));
      packing.micro_batch.push_back(static_cast<std::int32_t>(random.below(std::uint32_t(steps * each))));
      packing.share.push_back(static_cast<std::int32_t>(random.below(shares)));
      group.push_back(packing.share.back() * groups / shares);
      for (int i = 0; i < loads.nodes * loads.layers; ++i)
        loads.data.push_back(static_cast<std::int32_t>(random.below(200)));
    }
    RoutingDump dump = dump_of(tokens);
    dump.header.optimizer_steps = steps;
    if (fixed_ranks) dump.sequences.source_rank = packing.share;
    const Packing before = packing;
    const auto group_before = group;
    const RepackResult result = repack(dump, loads, groups, packing, group);

    EXPECT_EQ(result.before, slow_sum(loads, before, group_before)) << seed;
    EXPECT_EQ(result.after, slow_sum(loads, packing, group)) << seed;
    EXPECT_LE(result.after, result.before) << seed;
    EXPECT_TRUE(loads.nodes == 1 || result.swaps > 0) << seed;
    std::map<std::pair<int, int>, std::int64_t> old_share, new_share;
    std::map<int, std::int64_t> largest;
    for (std::size_t s = 0; s < tokens.size(); ++s) {
      EXPECT_EQ(packing.micro_batch[s] / each, before.micro_batch[s] / each) << seed;
      EXPECT_TRUE(!fixed_ranks || packing.share[s] == before.share[s]) << seed;
      EXPECT_EQ(group[s], packing.share[s] * groups / shares) << seed;
      old_share[{before.micro_batch[s], before.share[s]}] += tokens[s];
      new_share[{packing.micro_batch[s], packing.share[s]}] += tokens[s];
    }
    for (const auto& [share, n] : old_share) largest[share.first] = std::max(largest[share.first], n);
    for (const auto& [share, n] : new_share) EXPECT_LE(n, largest[share.first]) << seed;
  }
}

}  // namespace
}  // namespace relibra
