#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "lib/base/random.h"
#include "lib/planning/pack.h"

namespace relibra {
namespace {

using testing::ElementsAre;

RoutingDump dump_of(std::vector<std::int64_t> lengths, std::vector<std::int32_t> micro_batch) {
  RoutingDump dump;
  dump.sequences.row_offset.resize(lengths.size() + 1);
  dump.sequences.num_tokens = std::move(lengths);
  dump.sequences.micro_batch = std::move(micro_batch);
  return dump;
}

// One micro-batch of 9 5 4 1 on 4 ranks, 2 to a node: nodes of 9+1 and 5+4.
TEST(AssignSources, NodesGetTheSameTokens) {
  const RoutingDump dump = dump_of({9, 5, 4, 1}, {0, 0, 0, 0});
  const Topology topology{4, 1, 2};
  const Packing packing = form_micro_batches(dump, topology, {});
  const auto group = assign_groups(dump, packing, topology);
  EXPECT_THAT(group, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(assign_sources(dump, packing, group, {}, topology), ElementsAre(0, 2, 3, 1));
}

// Equal lengths: the two sequences whose experts are on node 1 go there.
TEST(AssignSources, SequencesOfLikeLengthGoNearTheirExperts) {
  const RoutingDump dump = dump_of({5, 5, 5, 5}, {0, 0, 0, 0});
  const Topology topology{4, 1, 2};
  const Packing packing = form_micro_batches(dump, topology, {});
  const auto group = assign_groups(dump, packing, topology);
  for (const std::vector<std::int64_t>& affinity : {std::vector<std::int64_t>{1, 9, 9, 1, 1, 9, 9, 1},
                                                    std::vector<std::int64_t>{1, 9, 1, 9, 9, 1, 9, 1}}) {
    const auto source = assign_sources(dump, packing, group, affinity, topology);
    for (std::size_t s = 0; s < 4; ++s)
      EXPECT_EQ(source[s] / 2, affinity[2 * s] > affinity[2 * s + 1] ? 0 : 1) << "sequence " << s;
    EXPECT_EQ(std::set<std::int32_t>(source.begin(), source.end()).size(), 4u);
  }
}

// Locality never costs balance: 9 and 1 stay together, however much both want to be elsewhere.
TEST(AssignSources, BalanceComesBeforeLocality) {
  const RoutingDump dump = dump_of({900, 500, 400, 100}, {0, 0, 0, 0});
  const Topology topology{4, 1, 2};
  const Packing packing = form_micro_batches(dump, topology, {});
  const auto group = assign_groups(dump, packing, topology);
  const std::vector<std::int64_t> affinity{99, 0, 99, 0, 0, 99, 0, 99};
  const auto source = assign_sources(dump, packing, group, affinity, topology);
  EXPECT_EQ(source[0] / 2, source[3] / 2);
  EXPECT_EQ(source[1] / 2, source[2] / 2);
}

TEST(AssignSources, KeepsGivenRanks) {
  RoutingDump dump = dump_of({5, 4, 3}, {0, 0, 1});
  dump.sequences.source_rank = {3, 1, 1};
  const Topology topology{2, 2, 2};
  const Packing packing = form_micro_batches(dump, topology, {});
  EXPECT_EQ(packing.share, dump.sequences.source_rank);
  const auto group = assign_groups(dump, packing, topology);
  EXPECT_THAT(group, ElementsAre(1, 0, 0));
  EXPECT_EQ(assign_sources(dump, packing, group, {}, topology), dump.sequences.source_rank);
}

TEST(AssignSources, NoSequences) {
  const RoutingDump dump = dump_of({}, {});
  const Topology topology{4, 2, 2};
  const Packing packing = form_micro_batches(dump, topology, {.micro_batches = 3});
  EXPECT_TRUE(assign_groups(dump, packing, topology).empty());
  EXPECT_TRUE(assign_sources(dump, packing, {}, {}, topology).empty());
}

// A share stays whole on one rank of one group, two shares of a micro-batch never meet on a rank, and groups
// and nodes carry nearly the same.
TEST(AssignSources, SharesStayWholeAndNodesEven) {
  for (const Topology& topology : {Topology{8, 1, 4}, Topology{8, 2, 4}, Topology{4, 4, 8}, Topology{2, 3, 4},
                                   Topology{6, 2, 3}, Topology{1, 4, 2}}) {
    Random random(7);
    std::vector<std::int64_t> lengths;
    for (int s = 0; s < 600; ++s) lengths.push_back(50 + random.below(1000));
    RoutingDump dump = dump_of(lengths, {});
    const Packing packing = form_micro_batches(dump, topology, {.micro_batches = 4});
    const auto group = assign_groups(dump, packing, topology);
    std::vector<std::int64_t> affinity;
    for (int i = 0; i < 600 * topology.nodes(); ++i) affinity.push_back(random.below(100));
    const auto source = assign_sources(dump, packing, group, affinity, topology);

    std::map<std::pair<int, int>, std::set<int>> ranks_of_share, shares_of_rank;
    std::map<std::pair<int, int>, std::int64_t> of_group, of_node;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      const int m = packing.micro_batch[s];
      ASSERT_EQ(topology.group_of(RankId(source[s])).value(), group[s]);
      ranks_of_share[{m, packing.share[s]}].insert(source[s]);
      shares_of_rank[{m, source[s]}].insert(packing.share[s]);
      of_group[{m, group[s]}] += lengths[s];
      if (topology.ep_size >= topology.gpus_per_node)
        of_node[{m, topology.node_of(RankId(source[s])).value()}] += lengths[s];
    }
    for (const auto& [share, ranks] : ranks_of_share) EXPECT_EQ(ranks.size(), 1u);
    for (const auto& [rank, shares] : shares_of_rank) EXPECT_EQ(shares.size(), 1u);
    for (const auto& table : {of_group, of_node})
      for (const auto& [a, x] : table)
        for (const auto& [b, y] : table) {
          if (a.first == b.first) {
            EXPECT_LE(std::abs(x - y), x / 30);
          }
        }
    EXPECT_EQ(assign_sources(dump, packing, group, affinity, topology), source);
  }
}

}  // namespace
}  // namespace relibra
