#include "lib/planning/rank_groups.h"

#include <gtest/gtest.h>

#include <numeric>

#include "lib/base/random.h"

namespace relibra {
namespace {

std::vector<int> values(std::span<const std::int32_t> ranks) {
  return {ranks.begin(), ranks.end()};
}

// -3 + 4 leaves 1, all that is left over in total; the others sum to exactly zero and are the rest.
TEST(RankGroups, WorkedExample) {
  RankGroups groups;
  groups.find(std::vector<std::int64_t>{-3, 4, -5, 2, 2, 1});
  ASSERT_EQ(groups.count(), 1);
  EXPECT_EQ(values(groups.group(0)), (std::vector<int>{0, 1}));
  EXPECT_EQ(values(groups.rest()), (std::vector<int>{2, 5, 3, 4}));
}

// Pairs first (-4 with 4), then threes (-5 with 2 and 3), the rest -1 0 1 without the idle rank.
TEST(RankGroups, SmallGroupsFirst) {
  RankGroups groups;
  groups.find(std::vector<std::int64_t>{-5, -4, 2, 4, 3, -1, 0, 1});
  ASSERT_EQ(groups.count(), 2);
  EXPECT_EQ(values(groups.group(0)), (std::vector<int>{1, 3}));
  EXPECT_EQ(values(groups.group(1)), (std::vector<int>{5, 7}));
  EXPECT_EQ(values(groups.rest()), (std::vector<int>{0, 2, 4}));
}

TEST(RankGroups, NobodyOverloadedNoGroup) {
  RankGroups groups;
  groups.find(std::vector<std::int64_t>{3, 0, 2});
  EXPECT_EQ(groups.count(), 0);
}

TEST(RankGroups, EveryGroupCoversItselfAndSoDoesTheRest) {
  Random random(5);
  RankGroups groups;
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::int64_t> room(1 + random.below(i % 20 == 0 ? 100 : 12));
    for (auto& r : room) r = static_cast<std::int64_t>(random.below(21)) - 10;
    const std::int64_t sum = std::accumulate(room.begin(), room.end(), std::int64_t{0});
    if (sum < 0) room[0] -= sum;
    groups.find(room);
    std::vector<int> seen(room.size(), 0);
    const auto room_of = [&](std::span<const std::int32_t> ranks) {
      std::int64_t total = 0;
      for (std::int32_t r : ranks) {
        total += room[static_cast<std::size_t>(r)];
        ++seen[static_cast<std::size_t>(r)];
      }
      return total;
    };
    for (int g = 0; g < groups.count(); ++g) {
      EXPECT_GE(groups.group(g).size(), 2u);
      EXPECT_GE(room_of(groups.group(g)), 0);
    }
    EXPECT_GE(room_of(groups.rest()), 0);
    for (std::size_t r = 0; r < room.size(); ++r) EXPECT_EQ(seen[r], room[r] == 0 ? 0 : 1);
  }
}

}  // namespace
}  // namespace relibra
