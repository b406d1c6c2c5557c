#include "lib/job/plan_cells.h"

#include <gmock/gmock.h>

namespace relibra {
namespace {

using testing::ElementsAre;

/// 3 sequences, E = 2, one layer (layer 4 of the model, index 1 owned):
///   s0 micro-batch 0 group 0: 5 1;  s1 micro-batch 1 group 1: 2 3;  s2 micro-batch 0 group 0: 0 4.
struct Small {
  SequenceCounts counts{Range{1, 2}, 3, 2};
  SequencePlaces places{{.micro_batches = 2, .micro_batch = {0, 1, 0}, .share = {}}, {0, 1, 0}, {}};
  Small() {
    const std::uint32_t values[3][2] = {{5, 1}, {2, 3}, {0, 4}};
    for (int s = 0; s < 3; ++s)
      for (int e = 0; e < 2; ++e) counts.of(LayerId(1), s)[static_cast<std::size_t>(e)] = values[s][e];
  }
};

TEST(PlanCells, LoadsAreSummedByMicroBatchAndGroup) {
  const Small small;
  const LayerLoads loads = layer_loads(small.counts, LayerId(1), small.places, 2);
  EXPECT_THAT(loads.data, ElementsAre(5, 5, /* m0 g1 */ 0, 0, /* m1 g0 */ 0, 0, 2, 3));
}

TEST(PlanCells, AffinityCountsAssignmentsByNodeOfTheHomeInTheOwnGroup) {
  // P = 2, D = 2, G = 1: 4 nodes, expert 0 at home on rank 1 of the group, expert 1 on rank 0.
  const Small small;
  const Topology topology{.ep_size = 2, .ep_groups = 2, .gpus_per_node = 1};
  const std::vector home{EpRankId(1), EpRankId(0)};
  std::vector<std::int64_t> affinity(12, 0);
  add_affinity(small.counts, LayerId(1), home, small.places, topology, affinity);
  EXPECT_THAT(affinity, ElementsAre(1, 5, 0, 0, 0, 0, 3, 2, 4, 0, 0, 0));
}

TEST(PlanCells, CellsHoldTokensByExpertAndSource) {
  Small small;
  small.places.source_rank = {1, 3, 1};
  CellCounts cell(2, 4);
  fill_cell(small.counts, LayerId(1), by_micro_batch(small.places)[0], small.places, cell);
  EXPECT_THAT(cell.of(ExpertId(0)), ElementsAre(0, 5, 0, 0));
  EXPECT_THAT(cell.of(ExpertId(1)), ElementsAre(0, 5, 0, 0));
  fill_cell(small.counts, LayerId(1), by_micro_batch(small.places)[1], small.places, cell);
  EXPECT_THAT(cell.of(ExpertId(0)), ElementsAre(0, 0, 0, 2));
}

TEST(PlanCells, TablesOfTheExampleInTheHeader) {
  const Topology topology{.ep_size = 2, .ep_groups = 1, .gpus_per_node = 2};
  CellCounts counts(2, 2);
  counts.at(ExpertId(0), RankId(0)) = 5;
  counts.at(ExpertId(1), RankId(0)) = 2;
  counts.at(ExpertId(1), RankId(1)) = 3;
  PlannedCell cell;
  cell.plan.copies = {{ExpertId(0), RankId(1), 0}};
  cell.plan.split = {{ExpertId(0), RankId(0), RankId(0), 4}, {ExpertId(0), RankId(0), RankId(1), 1}};
  tabulate(counts, std::vector{EpRankId(0), EpRankId(1)}, topology, cell);
  EXPECT_THAT(cell.transfer, ElementsAre(4, 3, 0, 3));
  EXPECT_THAT(cell.rank_tokens, ElementsAre(4, 6));
  EXPECT_THAT(cell.rank_tokens_static, ElementsAre(5, 5));
}

TEST(PlanCells, ACopyInOneGroupLeavesTheOtherGroupAtHome) {
  // P = 2, D = 2: expert 0 at home on EP rank 0, copied in group 1 only.
  const Topology topology{.ep_size = 2, .ep_groups = 2, .gpus_per_node = 2};
  CellCounts counts(2, 4);
  counts.at(ExpertId(0), RankId(1)) = 6;
  counts.at(ExpertId(0), RankId(3)) = 8;
  PlannedCell cell;
  cell.plan.copies = {{ExpertId(0), RankId(3), 0}};
  cell.plan.split = {{ExpertId(0), RankId(3), RankId(2), 3}, {ExpertId(0), RankId(3), RankId(3), 5}};
  tabulate(counts, std::vector{EpRankId(0), EpRankId(1)}, topology, cell);
  EXPECT_THAT(cell.rank_tokens, ElementsAre(6, 0, 3, 5));
  EXPECT_THAT(cell.rank_tokens_static, ElementsAre(6, 0, 8, 0));
}

}  // namespace
}  // namespace relibra
