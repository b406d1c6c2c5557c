#include "lib/base/text.h"

#include <gtest/gtest.h>

namespace relibra {
namespace {

TEST(Text, IsPrintfIntoAString) {
  EXPECT_EQ(text("%d of %s", 3, "four"), "3 of four");
  EXPECT_EQ(text("%s", std::string(600, 'x').c_str()), std::string(511, 'x'));
}

}  // namespace
}  // namespace relibra
