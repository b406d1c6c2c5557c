#include "lib/base/units.h"

#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace relibra {
namespace {

TEST(Units, SizesArePowersOf1024) {
  EXPECT_EQ(parse_size("4096", "--x"), 4096);
  EXPECT_EQ(parse_size("4k", "--x"), 4096);
  EXPECT_EQ(parse_size("128M", "--x"), 134217728);
  EXPECT_EQ(parse_size("1.5G", "--x"), 1610612736);
}

TEST(Units, TimesAreSecondsUnlessSaid) {
  EXPECT_EQ(parse_seconds("5", "--x"), 5);
  EXPECT_EQ(parse_seconds("5s", "--x"), 5);
  EXPECT_EQ(parse_seconds("200ms", "--x"), 0.2);
  EXPECT_EQ(parse_seconds("2m", "--x"), 120);
}

TEST(Units, SharesArePlainPercentOrFractions) {
  EXPECT_EQ(parse_share("0.01", "--x"), 0.01);
  EXPECT_EQ(parse_share("1%", "--x"), 0.01);
  EXPECT_EQ(parse_share("0", "--x"), 0);
  EXPECT_EQ(parse_share("1/16", "--x"), 0.0625);
  EXPECT_THROW(parse_share("1/0", "--x"), Error);
  EXPECT_THROW(parse_share("1/2/3", "--x"), Error);
}

TEST(Units, RubbishNamesTheOption) {
  for (const char* text : {"", "k", "4q", "-1", "nan", "1e400", "5 s"}) {
    try {
      parse_size(text, "--tokens");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::usage);
      EXPECT_NE(std::string(error.what()).find("--tokens"), std::string::npos);
    }
  }
  EXPECT_THROW(parse_seconds("5k", "--x"), Error);
  EXPECT_THROW(parse_share("1k", "--x"), Error);
  EXPECT_THROW(parse_size("8388608T", "--x"), Error);  // 2^63
}

TEST(Units, PrintedForPeople) {
  EXPECT_EQ(format_bytes(812), "812 B");
  EXPECT_EQ(format_bytes(37.7e6), "37.7 MB");
  EXPECT_EQ(format_bytes(999.6e3), "1.00 MB");
  EXPECT_EQ(format_seconds(340e-6), "340 us");
  EXPECT_EQ(format_seconds(0.0124), "12.4 ms");
  EXPECT_EQ(format_seconds(3.2), "3.20 s");
  EXPECT_EQ(format_seconds(125), "2 m 05 s");
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(123), "123");
  EXPECT_EQ(format_count(12345678), "12 345 678");
  EXPECT_EQ(format_count(-1234), "-1 234");
}

}  // namespace
}  // namespace relibra
