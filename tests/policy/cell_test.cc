#include "lib/policy/cell.h"

#include <gtest/gtest.h>

namespace relibra {
namespace {

// P = 4, G = 2, E = 4 with homes 0 0 1 2; expert e has e + 1 tokens on rank 3.
TEST(CellDomains, WorkedExample) {
  const Topology topology{.ep_size = 4, .gpus_per_node = 2};
  const std::vector<EpRankId> home{EpRankId(0), EpRankId(0), EpRankId(1), EpRankId(2)};
  CellCounts counts(4, 4);
  for (ExpertId e : all<ExpertId>(4)) counts.at(e, RankId(3)) = e.value() + 1;
  const auto domains = cell_domains(counts, topology, home, 2);
  ASSERT_EQ(domains.size(), 2u);
  EXPECT_EQ(domains[0].expert, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(domains[0].home, (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(domains[0].load, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(domains[1].first, EpRankId(2));
  EXPECT_EQ(domains[1].expert, (std::vector<std::int32_t>{3}));
  EXPECT_EQ(domains[1].home, (std::vector<std::int32_t>{0}));
}

// Groups of 2 ranks, four of them on two nodes of 4: a domain is one group, loads are its own sources' only.
TEST(CellDomains, SeveralGroupsOnANode) {
  const Topology topology{.ep_size = 2, .ep_groups = 4, .gpus_per_node = 4};
  const std::vector<EpRankId> home{EpRankId(0), EpRankId(1)};
  CellCounts counts(2, 8);
  for (RankId r : all<RankId>(8)) counts.at(ExpertId(1), r) = r.value();
  const auto domains = cell_domains(counts, topology, home, topology.domain_size());
  ASSERT_EQ(domains.size(), 4u);
  EXPECT_EQ(domains[3].group, GroupId(3));
  EXPECT_EQ(domains[3].load, (std::vector<std::int64_t>{0, 6 + 7}));
}

// Expert 5, 10 tokens of group 1 (ranks 2, 3): home rank 2, a copy with 4 on rank 3. Sources hold 7 and 3:
// rank 3 keeps its 3 and takes 1 of rank 2's.
TEST(AppendQuotas, HomeKeepsTheRest) {
  const Topology topology{.ep_size = 2, .ep_groups = 2, .gpus_per_node = 2};
  CellCounts counts(6, 4);
  counts.at(ExpertId(5), RankId(2)) = 7;
  counts.at(ExpertId(5), RankId(3)) = 3;
  const CellDomain domain{
      .group = GroupId(1), .first = EpRankId(0), .ranks = 2, .expert = {5}, .home = {0}, .load = {10}};
  CellPlan plan;
  const Quota quota{0, 1, 4};
  append_quotas(domain, {&quota, 1}, counts, topology, plan);
  EXPECT_EQ(plan.copies, (std::vector<Copy>{{ExpertId(5), RankId(3), 0}}));
  EXPECT_EQ(plan.split, (std::vector<SplitEntry>{{ExpertId(5), RankId(2), RankId(2), 6},
                                                 {ExpertId(5), RankId(2), RankId(3), 1},
                                                 {ExpertId(5), RankId(3), RankId(3), 3}}));
}

TEST(FinishCell, SlotsByAscendingExpert) {
  CellPlan plan;
  plan.copies = {{ExpertId(4), RankId(1), 0}, {ExpertId(2), RankId(1), 0}, {ExpertId(3), RankId(0), 0}};
  finish_cell(plan, {.ep_size = 2, .gpus_per_node = 2});
  EXPECT_EQ(plan.copies,
            (std::vector<Copy>{
                {ExpertId(2), RankId(1), 0}, {ExpertId(3), RankId(0), 0}, {ExpertId(4), RankId(1), 1}}));
}

}  // namespace
}  // namespace relibra
