#include "lib/model/placement.h"

#include <gtest/gtest.h>

namespace relibra {
namespace {

std::vector<int> values(std::span<const ExpertId> ids) {
  std::vector<int> v;
  for (ExpertId e : ids) v.push_back(e.value());
  return v;
}

TEST(Placement, ContiguousBlocksOfCeil) {
  const auto p = Placement::contiguous(1, 5, 2);
  std::vector<int> homes;
  for (EpRankId r : p.layer(LayerId(0))) homes.push_back(r.value());
  EXPECT_EQ(homes, (std::vector<int>{0, 0, 0, 1, 1}));
}

// E = 4, P = 2, C = 2. Before: slots 0 1 | 2 3. Experts 1 and 2 change places: 0 keeps slot 0 of rank 0, 2
// takes the free slot 1; 3 keeps slot 1 of rank 1, 1 takes the free slot 0.
TEST(AssignSlots, StayersKeepTheirSlotOthersFillTheLowestFree) {
  const auto before = Placement::contiguous(1, 4, 2);
  auto after = before;
  after.home(LayerId(0), ExpertId(1)) = EpRankId(1);
  after.home(LayerId(0), ExpertId(2)) = EpRankId(0);
  const auto slots = assign_slots(after, 2, 2, before, initial_slots(1, 4, 2), 2);
  EXPECT_EQ(values(slots), (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(moves_between(before, after),
            (std::vector<Move>{{LayerId(0), ExpertId(1), EpRankId(0), EpRankId(1)},
                               {LayerId(0), ExpertId(2), EpRankId(1), EpRankId(0)}}));
}

TEST(AssignSlots, EmptySlotsAreInvalid) {
  const auto p = Placement::contiguous(1, 5, 2);
  EXPECT_EQ(values(assign_slots(p, 2, 3, p, initial_slots(1, 5, 2), 3)),
            (std::vector<int>{0, 1, 2, 3, 4, -1}));
}

}  // namespace
}  // namespace relibra
