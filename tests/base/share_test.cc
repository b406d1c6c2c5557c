#include "lib/base/share.h"

#include <gtest/gtest.h>

namespace relibra {
namespace {

TEST(ShareOf, WorkedExample) {
  EXPECT_EQ(share_of(10, 0, 3), (Range{0, 4}));
  EXPECT_EQ(share_of(10, 1, 3), (Range{4, 7}));
  EXPECT_EQ(share_of(10, 2, 3), (Range{7, 10}));
}

TEST(ShareOf, CoversEverythingOnceAndOwnerIsTheInverse) {
  for (int total : {0, 1, 2, 7, 16, 33})
    for (int parts : {1, 2, 3, 8, 40}) {
      std::int64_t next = 0;
      for (int p = 0; p < parts; ++p) {
        const Range r = share_of(total, p, parts);
        EXPECT_EQ(r.first, next);
        for (std::int64_t i = r.first; i < r.last; ++i) EXPECT_EQ(owner_of(i, total, parts), p);
        next = r.last;
      }
      EXPECT_EQ(next, total);
    }
}

}  // namespace
}  // namespace relibra
