#include "lib/base/error.h"

#include <gtest/gtest.h>

#include <new>

namespace relibra {
namespace {

TEST(Error, TextHasAllPartsInOrder) {
  const Error e(
      Fault::input,
      {.where = "a.h5:/experts", .expected = "3 dimensions", .found = "2", .advice = "check the producer"});
  EXPECT_STREQ(e.what(), "a.h5:/experts: expected 3 dimensions, found 2; check the producer");
  EXPECT_EQ(e.exit_status(), 3);
}

TEST(Error, LeavesOutEmptyParts) {
  EXPECT_STREQ(Error(Fault::usage, {.where = "--seed", .found = "-1"}).what(), "--seed: found -1");
  EXPECT_STREQ(Error(Fault::usage, {.where = "--seed", .advice = "give one"}).what(), "--seed; give one");
}

TEST(Error, AnyExceptionBecomesOne) {
  try {
    throw std::bad_alloc();
  } catch (...) {
    EXPECT_EQ(to_error(std::current_exception()).fault(), Fault::environment);
  }
}

}  // namespace
}  // namespace relibra
