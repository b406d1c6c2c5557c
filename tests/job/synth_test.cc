#include "lib/job/synth.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lib/base/error.h"
#include "tests/support/shared_data.h"

namespace relibra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Parses `lines` below the right first line.
MeasuredPopularity parsed(const std::string& lines, const std::string& model,
                          const std::string& first = "model,domain,layer,expert,count\n") {
  const auto path = std::filesystem::temp_directory_path() / ("relibra-counts-" + std::to_string(getpid()));
  std::ofstream(path) << first << lines;
  struct Remove {
    std::filesystem::path path;
    ~Remove() { std::filesystem::remove(path); }
  } remove{path};
  return read_popularity(Comm::world(), path, model);
}

std::string refusal(const std::string& lines, const std::string& model = "a",
                    const std::string& first = "model,domain,layer,expert,count\n") {
  try {
    parsed(lines, model, first);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Popularity, TwoDomainsTwoLayersTwoExpertsInAnyOrder) {
  const std::string lines =
      "a,web,7,0,10\na,web,7,1,20\na,book,0,1,4\nb,web,0,0,99\na,book,0,0,3\n"
      "a,book,7,0,5\na,book,7,1,6\na,web,0,0,1\na,web,0,1,2.5\n";
  const auto measured = parsed(lines, "a");
  EXPECT_THAT(measured.domains, ElementsAre("book", "web"));
  EXPECT_THAT(measured.layers, ElementsAre(0, 7));
  EXPECT_EQ(measured.experts, 2);
  EXPECT_THAT(measured.counts, ElementsAre(3, 4, 5, 6, 1, 2.5, 10, 20));
}

TEST(Popularity, TheOnlyModelNeedsNoName) {
  EXPECT_THAT(parsed("a,web,0,0,1\r\na,web,0,1,2\r\n", "").counts, ElementsAre(1, 2));
}

TEST(Popularity, FaultsNameTheLine) {
  EXPECT_THAT(refusal("a,web,0,0,1\na,web,0\n"), HasSubstr("line 3"));
  EXPECT_THAT(refusal("a,web,zero,0,1\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("a,web,0,0,-1\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("a,web,0,0,1,5\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("a,web,0,0,1\n", "a", "expert,count\n"), HasSubstr("first line"));
  EXPECT_THAT(refusal("a,web,0,0,1\na,web,0,1,1\na,book,0,0,1\n"), HasSubstr("3 of 4"));
  EXPECT_THAT(refusal("a,web,0,0,1\nb,web,0,0,1\n", ""), HasSubstr("a, b"));
  EXPECT_THAT(refusal("a,web,0,0,1\n", "c"), HasSubstr("--counts-model"));
}

TEST(Popularity, OfTheRealTableIfItIsThere) {
  const auto table = test::shared_folder() / "data/olmoe/expert_counts.csv";
  if (!std::filesystem::exists(table)) GTEST_SKIP() << "no " << table;
  const auto measured = read_popularity(Comm::world(), table, "olmoe");
  EXPECT_EQ(measured.experts, 64);
  EXPECT_EQ(measured.domains.size(), 6u);
  EXPECT_THAT(measured.layers, ElementsAre(0, 7, 15));
}

}  // namespace
}  // namespace relibra
