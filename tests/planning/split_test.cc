#include "lib/planning/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "lib/base/random.h"

namespace relibra {
namespace {

using Entries = std::vector<std::array<int, 4>>;

Entries split(const Topology& topology, GroupId group, const std::vector<std::int32_t>& tokens,
              const std::vector<HolderQuota>& holders) {
  std::vector<SplitEntry> out;
  split_by_source(ExpertId(7), group, topology, tokens, holders, out);
  Entries entries;
  for (const SplitEntry& e : out)
    entries.push_back({e.expert.value(), e.source.value(), e.rank.value(), e.tokens});
  return entries;
}

// P = 4, two nodes of 2. Holders 0 (quota 6) and 1 (quota 8); sources hold 5 4 3 2. Rank 0 keeps its 5 and
// has room for 1, rank 1 keeps its 4 and has room for 4. The other node's 3 go 1 to rank 0, 2 to rank 1, its
// 2 to rank 1.
TEST(SplitBySource, OwnTokensStayFirst) {
  EXPECT_EQ(
      split({.ep_size = 4, .gpus_per_node = 2}, GroupId(0), {5, 4, 3, 2}, {{RankId(0), 6}, {RankId(1), 8}}),
      (Entries{{7, 0, 0, 5}, {7, 1, 1, 4}, {7, 2, 0, 1}, {7, 2, 1, 2}, {7, 3, 1, 2}}));
}

// Group 1 of P = 4: ranks 4..7, nodes {4, 5} and {6, 7}; holders 4 and 6 with 5 each. Sources 1 6 0 3: 4
// keeps 1 and takes 4 of its neighbour's 6; 6 takes its neighbour's 3, and the 2 left of rank 5 go to the
// other node.
TEST(SplitBySource, ThenTheNodeThenOthers) {
  EXPECT_EQ(split({.ep_size = 4, .ep_groups = 2, .gpus_per_node = 2}, GroupId(1), {1, 6, 0, 3},
                  {{RankId(4), 5}, {RankId(6), 5}}),
            (Entries{{7, 4, 4, 1}, {7, 5, 4, 4}, {7, 5, 6, 2}, {7, 7, 6, 3}}));
}

TEST(SplitBySource, AppendsAndAllowsEmptyQuotas) {
  std::vector<SplitEntry> out{{ExpertId(1), RankId(0), RankId(1), 9}};
  split_by_source(ExpertId(2), GroupId(0), {.ep_size = 2, .gpus_per_node = 2},
                  std::vector<std::int32_t>{0, 3}, std::vector<HolderQuota>{{RankId(1), 0}, {RankId(0), 3}},
                  out);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1], (SplitEntry{ExpertId(2), RankId(1), RankId(0), 3}));
}

TEST(SplitBySource, RandomMarginsAreMetExactlyAndLocalTokensStay) {
  Random random(21);
  for (int i = 0; i < 3000; ++i) {
    const int node = 1 << random.below(4), nodes = 1 + static_cast<int>(random.below(4));
    const Topology topology{
        .ep_size = node * nodes, .ep_groups = 2, .gpus_per_node = i % 5 == 0 ? 2 * node * nodes : node};
    const GroupId group(static_cast<int>(random.below(2)));
    std::vector<std::int32_t> tokens;
    for (int p = 0; p < topology.ep_size; ++p)
      tokens.push_back(static_cast<std::int32_t>(random.below(3) * random.below(50)));
    std::int64_t left = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
    std::vector<HolderQuota> holders;
    for (EpRankId p : all<EpRankId>(topology.ep_size)) {
      if (random.below(2) == 0 && p.value() + 1 < topology.ep_size) continue;
      const bool last = p.value() + 1 == topology.ep_size;
      const std::int64_t quota =
          last ? left : static_cast<std::int64_t>(random.below(static_cast<std::uint32_t>(left) + 1));
      holders.push_back({topology.rank_of(group, p), quota});
      left -= quota;
    }
    std::vector<SplitEntry> out;
    split_by_source(ExpertId(0), group, topology, tokens, holders, out);
    EXPECT_TRUE(std::is_sorted(out.begin(), out.end()));
    std::vector<std::int64_t> from(tokens.size(), 0), to(tokens.size(), 0), own(tokens.size(), 0);
    std::int64_t in_node = 0, best_in_node = 0;
    for (std::size_t k = 0; k < out.size(); ++k) {
      const SplitEntry& e = out[k];
      EXPECT_GT(e.tokens, 0);
      if (k > 0) {
        EXPECT_FALSE(out[k - 1].source == e.source && out[k - 1].rank == e.rank);
      }
      EXPECT_EQ(topology.group_of(e.source), group);
      from[topology.ep_rank_of(e.source).index()] += e.tokens;
      to[topology.ep_rank_of(e.rank).index()] += e.tokens;
      if (e.source == e.rank) own[topology.ep_rank_of(e.rank).index()] += e.tokens;
      if (topology.node_of(e.source) == topology.node_of(e.rank)) in_node += e.tokens;
    }
    std::vector<std::int64_t> node_tokens(static_cast<std::size_t>(topology.nodes()), 0),
        node_quota = node_tokens;
    for (EpRankId p : all<EpRankId>(topology.ep_size)) {
      EXPECT_EQ(from[p.index()], tokens[p.index()]);
      node_tokens[topology.node_of(topology.rank_of(group, p)).index()] += tokens[p.index()];
    }
    for (const HolderQuota& h : holders) {
      const std::size_t p = topology.ep_rank_of(h.rank).index();
      EXPECT_EQ(to[p], h.tokens);
      EXPECT_EQ(own[p], std::min<std::int64_t>(h.tokens, tokens[p]));
      node_quota[topology.node_of(h.rank).index()] += h.tokens;
    }
    for (std::size_t n = 0; n < node_tokens.size(); ++n)
      best_in_node += std::min(node_tokens[n], node_quota[n]);
    EXPECT_EQ(in_node, best_in_node);
  }
}

}  // namespace
}  // namespace relibra
