#include "lib/planning/eplb.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "lib/base/random.h"

namespace relibra {
namespace {

using Slots = std::vector<std::int32_t>;

// The loads of EPLB's README.
const std::vector<float> kFirst{90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86};
const std::vector<float> kSecond{20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};

std::vector<double> rank_loads(const std::vector<float>& load, const Slots& slots, int ranks) {
  std::map<int, int> copies;
  for (int e : slots) ++copies[e];
  std::vector<double> of_rank(static_cast<std::size_t>(ranks), 0);
  const std::size_t per_rank = slots.size() / of_rank.size();
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i] >= 0)
      of_rank[i / per_rank] +=
          static_cast<double>(load[static_cast<std::size_t>(slots[i])]) / copies[slots[i]];
  return of_rank;
}

double slowest_over_mean(const std::vector<float>& load, const Slots& slots, int ranks) {
  const auto of_rank = rank_loads(load, slots, ranks);
  return *std::max_element(of_rank.begin(), of_rank.end()) * ranks /
         std::accumulate(of_rank.begin(), of_rank.end(), 0.0);
}

TEST(Eplb, ReadmeExample) {
  const EplbShape shape{.slots = 16, .groups = 4, .nodes = 2, .ranks = 8};
  const Slots first = eplb(kFirst, shape), second = eplb(kSecond, shape);
  EXPECT_EQ(first, (Slots{5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1}));
  EXPECT_EQ(second, (Slots{7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1}));
  EXPECT_NEAR(slowest_over_mean(kFirst, first, 8), 1.2081, 5e-5);
  EXPECT_NEAR(slowest_over_mean(kSecond, second, 8), 1.2422, 5e-5);
}

// Three groups do not divide by two nodes. Expert 1 stands twice on rank 7 of the first, 8 twice on rank 6 of
// the second.
TEST(Eplb, ReadmeLoadsWithoutHierarchy) {
  const EplbShape shape{.slots = 16, .groups = 3, .nodes = 2, .ranks = 8};
  const Slots first = eplb(kFirst, shape), second = eplb(kSecond, shape);
  EXPECT_EQ(first, (Slots{10, 6, 10, 7, 0, 2, 11, 4, 5, 9, 5, 4, 8, 3, 1, 1}));
  EXPECT_EQ(second, (Slots{1, 10, 2, 4, 5, 11, 5, 0, 6, 7, 6, 3, 8, 8, 9, 7}));
  EXPECT_NEAR(slowest_over_mean(kFirst, first, 8), 1.0726, 5e-5);
  EXPECT_NEAR(slowest_over_mean(kSecond, second, 8), 1.1903, 5e-5);
}

// 9 and 6 open the bins, 4 joins the 6, and 3 the 9.
TEST(Eplb, PacksByHand) {
  const EvenPacks packs = pack_evenly(std::vector<float>{3, 9, 4, 6}, 2);
  EXPECT_EQ(packs.bin, (Slots{0, 0, 1, 1}));
  EXPECT_EQ(packs.place, (Slots{1, 0, 1, 0}));
  EXPECT_EQ(pack_evenly(std::vector<float>{1, 5, 2}, 3).bin, (Slots{0, 1, 2}));
  EXPECT_EQ(pack_evenly(std::vector<float>{5, 5, 5, 5, 5}, 2).bin, (Slots{0, 1, 0, 1, 0}));
}

// Loads 8 2 and four slots on two ranks: 8, then 4, then 8/3 a copy beside 2: 0 1 0 0. Packed: the three of
// expert 0 come first, one to each rank, the third to rank 0, and expert 1 to rank 1.
TEST(Eplb, GivesSlotsByHand) {
  EXPECT_EQ(eplb(std::vector<float>{8, 2}, {.slots = 4, .ranks = 2}), (Slots{0, 0, 0, 1}));
}

// Every expert has a slot, none is empty where they divide, groups stay on a node, and no expert's share
// exceeds what one more slot given elsewhere would have left.
TEST(Eplb, InvariantsOnRandomLoads) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    const int nodes = 1 << random.below(3), ranks = nodes * (1 + static_cast<int>(random.below(4)));
    const int groups = random.below(2) ? nodes * 2 : 1, experts = ranks * groups * 2;
    const EplbShape shape{experts + ranks * static_cast<int>(random.below(4)), groups, nodes, ranks};
    std::vector<float> load;
    for (int e = 0; e < experts; ++e)
      load.push_back(std::floor(1000 * static_cast<float>(std::exp(random.normal()))));
    const Slots slots = eplb(load, shape);
    ASSERT_EQ(slots.size(), static_cast<std::size_t>(shape.slots));
    std::map<int, int> copies;
    std::map<int, std::size_t> node_of_group;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      ++copies[slots[i]];
      if (!is_hierarchical(shape)) continue;
      const std::size_t node = i / (slots.size() / static_cast<std::size_t>(nodes));
      EXPECT_EQ(node_of_group.try_emplace(slots[i] / (experts / groups), node).first->second, node);
    }
    ASSERT_EQ(copies.size(), static_cast<std::size_t>(experts));
    const auto share = [&](int e, int n) {
      return load[static_cast<std::size_t>(e)] / static_cast<float>(n);
    };
    for (const auto& [a, of_a] : copies)
      for (const auto& [b, of_b] : copies) {
        const bool together = !is_hierarchical(shape) ||
                              node_of_group[a / (experts / groups)] == node_of_group[b / (experts / groups)];
        if (together && of_b > 1) {
          EXPECT_LE(share(a, of_a), share(b, of_b - 1));
        }
      }
  }
}

// Five experts on two ranks: three slots and two, the last of rank 1 empty.
TEST(Eplb, ShapesThatDoNotDivideLeaveSlotsEmpty) {
  EXPECT_EQ(eplb(std::vector<float>{5, 4, 3, 2, 1}, {.slots = 5, .ranks = 2}), (Slots{0, 3, 4, 1, 2, -1}));
}

}  // namespace
}  // namespace relibra
