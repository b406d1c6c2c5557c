#include <gtest/gtest.h>

#include "lib/job/plan_cells.h"

namespace relibra {
namespace {

/// A cell whose every number tells which cell it is; q % 4 copies and q % 3 split entries.
PlannedCell marked(int q, int world, int ep_size) {
  PlannedCell cell;
  for (int i = 0; i < q % 4; ++i) cell.plan.copies.push_back({ExpertId(i), RankId(q), i});
  for (int i = 0; i < q % 3; ++i) cell.plan.split.push_back({ExpertId(i), RankId(q), RankId(0), q + 1});
  cell.rank_tokens.assign(static_cast<std::size_t>(world), q);
  cell.rank_tokens_static.assign(static_cast<std::size_t>(world), 1000 + q);
  cell.transfer.assign(static_cast<std::size_t>(world * ep_size), q);
  return cell;
}

TEST(ShareOut, EveryRankGetsItsContiguousCellsWhole) {
  const Comm comm = Comm::world();
  for (const auto& [micro_batches, layers] : {std::pair{5, 3}, {1, 1}, {2, 7}, {0, 4}}) {
    PlanHeader header{.num_experts = 4,
                      .num_micro_batches = micro_batches,
                      .topology = {.ep_size = 2, .ep_groups = 2, .gpus_per_node = 2}};
    header.layers.resize(static_cast<std::size_t>(layers));
    const Range owned = share_of(layers, comm.rank(), comm.size());
    std::vector<PlannedCell> cells;
    for (int m = 0; m < micro_batches; ++m)
      for (auto l = owned.first; l < owned.last; ++l)
        cells.push_back(marked(m * layers + static_cast<int>(l), 4, 2));

    const PlanCells mine = share_out(comm, header, cells, true);
    EXPECT_EQ(mine.cells, share_of(header.num_cells(), comm.rank(), comm.size()));
    for (std::int64_t q = mine.cells.first; q < mine.cells.last; ++q) {
      const PlannedCell expected = marked(static_cast<int>(q), 4, 2);
      const auto i = static_cast<std::size_t>(q - mine.cells.first);
      const auto copies = mine.copies_of(q);
      const auto split = mine.split_of(q);
      EXPECT_EQ(std::vector<Copy>(copies.begin(), copies.end()), expected.plan.copies);
      EXPECT_EQ(std::vector<SplitEntry>(split.begin(), split.end()), expected.plan.split);
      EXPECT_EQ(mine.rank_tokens[4 * i + 3], q);
      EXPECT_EQ(mine.rank_tokens_static[4 * i], 1000 + q);
      EXPECT_EQ(mine.transfer[8 * i + 7], q);
    }
    EXPECT_EQ(mine.transfer.size(), static_cast<std::size_t>(mine.cells.size()) * 8);
    EXPECT_TRUE(share_out(comm, header, cells, false).transfer.empty());
  }
}

}  // namespace
}  // namespace relibra
