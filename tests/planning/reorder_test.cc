#include "lib/planning/reorder.h"

#include <gtest/gtest.h>

#include "lib/model/placement.h"

namespace relibra {
namespace {

std::vector<int> values(std::span<const EpRankId> homes) {
  std::vector<int> v;
  for (EpRankId r : homes) v.push_back(r.value());
  return v;
}

// E = 4, P = 2, G = 1: two domains of one rank with two slots each. Loads 5 4 3 2 in one micro-batch:
// {5, 2} and {4, 3} carry 7 each. Rank 0 keeps expert 0.
TEST(ReorderExperts, BalancesDomains) {
  const LayerLoads loads{1, 1, 4, {5, 4, 3, 2}};
  const std::vector<EpRankId> previous{EpRankId(0), EpRankId(0), EpRankId(1), EpRankId(1)};
  const auto result = reorder_experts(loads, {.ep_size = 2, .ep_groups = 1, .gpus_per_node = 1}, previous, {});
  EXPECT_EQ(values(result.home), (std::vector<int>{0, 1, 1, 0}));
}

}  // namespace
}  // namespace relibra
