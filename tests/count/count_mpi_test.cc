#include "lib/count/count.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/count/random_routing.h"

namespace relibra {
namespace {

using test::Shape;
using testing::HasSubstr;

/// Every count of every layer on its owner, and nothing else.
void expect_counts(const Comm& comm, const Shape& shape, const std::vector<int>& ids,
                   const SequenceCounts& counts) {
  ASSERT_EQ(counts.layers(), share_of(shape.layers, comm.rank(), comm.size()));
  ASSERT_EQ(counts.sequences(), static_cast<std::int64_t>(shape.rows.size()));
  const auto expected = test::slow_counts(shape, ids);
  for (auto l = counts.layers().first; l < counts.layers().last; ++l)
    for (std::int64_t s = 0; s < counts.sequences(); ++s)
      for (int e = 0; e < shape.experts; ++e) {
        const auto found = expected.find({static_cast<int>(l), s, e});
        ASSERT_EQ(counts.of(LayerId(l), s)[static_cast<std::size_t>(e)],
                  found == expected.end() ? 0 : found->second)
            << "layer " << l << " sequence " << s << " expert " << e;
      }
}

std::string refusal(const Comm& comm, RoutingSource& source, const CountOptions& options = {}) {
  try {
    count_routing(comm, source, options);
  } catch (const Error& error) {
    EXPECT_TRUE(error.agreed());
    EXPECT_EQ(error.fault(), Fault::input);
    return error.what();
  }
  return "not refused";
}

// E = 3, K = 2, L = 2; sequences of 2, 0 and 1 rows:
//   row 0: (0 2) (1 0)   row 1: (2 1) (1 2)   |   row 2: (0 1) (0 2)
// layer 0: sequence 0 = 1 1 2, sequence 2 = 1 1 0; layer 1: sequence 0 = 1 2 1, sequence 2 = 1 0 1.
TEST(CountRouting, WorkedExample) {
  const Comm comm = Comm::world();
  const Shape shape{.experts = 3, .top_k = 2, .layers = 2, .rows = {2, 0, 1}};
  auto source = test::source_of(shape, {0, 2, 1, 0, 2, 1, 1, 2, 0, 1, 0, 2});
  const auto result = count_routing(comm, source, {});
  const std::vector<std::uint32_t> layer[2] = {{1, 1, 2, 0, 0, 0, 1, 1, 0}, {1, 2, 1, 0, 0, 0, 1, 0, 1}};
  const Range own = share_of(2, comm.rank(), comm.size());
  for (auto l = own.first; l < own.last; ++l) {
    const auto got = result.counts.layer(LayerId(l));
    EXPECT_EQ(std::vector(got.begin(), got.end()), layer[l]);
  }
  EXPECT_EQ(result.findings.assignments, 12);
  EXPECT_EQ(result.findings.missing, 0);
}

TEST(CountRouting, RandomDumpsOfEveryTypeAndBlockSize) {
  const Comm comm = Comm::world();
  std::vector<Shape> shapes;
  for (const IdType type : {IdType::u8, IdType::i8, IdType::u16, IdType::i16, IdType::i32})
    for (const auto& [experts, top_k] : {std::pair{1, 1}, {60, 6}, {64, 8}, {128, 8}})
      shapes.push_back({experts, top_k, 5, {40, 0, 1, 700, 33}, type});
  for (const IdType type : {IdType::u16, IdType::i16, IdType::i32})
    for (const auto& [experts, top_k] : {std::pair{256, 8}, {257, 6}, {512, 10}})
      shapes.push_back({experts, top_k, 3, {300, 5}, type});
  shapes.push_back({160, 8, 9, {300, 5}, IdType::u8, 0.02, 0.001, 255});
  shapes.push_back({256, 8, 9, {300, 5}, IdType::u8});
  shapes.push_back({64, 6, 4, {90, 200}, IdType::i16, 0.02, 0.001, -1});
  shapes.push_back({256, 8, 4, {90, 200}, IdType::i32, 0.02, 0.001, 9999});
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE("shape " + std::to_string(i));
    const auto ids = test::random_ids(shapes[i], i);
    auto source = test::source_of(shapes[i], ids);
    const auto whole = count_routing(comm, source, {.max_missing = 0.2});
    expect_counts(comm, shapes[i], ids, whole.counts);
    const auto absent =
        std::count_if(ids.begin(), ids.end(), [&](int id) { return id < 0 || id == shapes[i].missing; });
    EXPECT_EQ(whole.findings.missing, absent);
    EXPECT_EQ(whole.findings.assignments, static_cast<std::int64_t>(ids.size()) - absent);
    const auto cut = count_routing(comm, source, {.max_missing = 0.2, .block_bytes = 5000});
    EXPECT_EQ(cut.digest, whole.digest);
    expect_counts(comm, shapes[i], ids, cut.counts);
  }
}

TEST(CountRouting, SaysWhereTheFirstFaultIsAndHowManyThereAre) {
  const Comm comm = Comm::world();
  for (const int experts : {64, 300}) {
    const Shape shape{
        .experts = experts, .top_k = 6, .layers = 4, .rows = {10, 0, 500, 7}, .type = IdType::i16};
    auto ids = test::random_ids(shape, 7);
    const auto cell = [&](int row, int layer) { return ids.begin() + (row * 4 + layer) * 6; };
    cell(512, 0)[2] = experts;          // sequence 3, the last
    cell(200, 3)[5] = cell(200, 3)[1];  // sequence 2: the first fault
    cell(200, 3)[4] = cell(200, 3)[1];  // a third of the same
    cell(201, 0)[0] = 32767;
    auto source = test::source_of(shape, ids);
    const auto text = refusal(comm, source, {.block_bytes = 1000});
    EXPECT_THAT(text, HasSubstr("/experts, sequence 2, row 200, layer 3: expected an expert once"));
    EXPECT_THAT(text, HasSubstr("found id " + std::to_string(cell(200, 3)[1]) + " twice"));
    EXPECT_THAT(text, HasSubstr("2 ids out of range and 2 repeated"));
    cell(9, 1)[0] = experts + 5;  // sequence 0
    auto worse = test::source_of(shape, ids);
    EXPECT_THAT(refusal(comm, worse), HasSubstr("sequence 0, row 9, layer 1: expected expert ids below " +
                                                std::to_string(experts)));
  }
}

TEST(CountRouting, StopsWhereTooManyRoutesAreMissing) {
  const Comm comm = Comm::world();
  // 2 rows x 1 layer x 4: 2 of 8 routes are missing, 25 %.
  const Shape shape{.experts = 8, .top_k = 4, .layers = 1, .rows = {2}, .type = IdType::i8};
  auto source = test::source_of(shape, {0, 1, -1, -2, 4, 5, 6, 7});
  EXPECT_THAT(refusal(comm, source, {.max_missing = 0.2}), HasSubstr("2 of 8 (25 %)"));
  EXPECT_EQ(count_routing(comm, source, {.max_missing = 0.25}).findings.missing, 2);
}

TEST(CountRouting, ADumpWithoutRowsHasNoCounts) {
  const Comm comm = Comm::world();
  const Shape shape{.experts = 8, .top_k = 2, .layers = 3, .rows = {0, 0}};
  auto source = test::source_of(shape, {});
  const auto result = count_routing(comm, source, {});
  EXPECT_EQ(result.digest, "c1-0000000000000000");
  EXPECT_EQ(result.findings.assignments, 0);
}

TEST(CountRouting, SuspectsConstantLayersDominantExpertsAndPadding) {
  const Comm comm = Comm::world();
  const Shape shape{.experts = 16, .top_k = 2, .layers = 3, .rows = {60, 40}, .type = IdType::u8};
  auto ids = test::random_ids(shape, 3);
  for (int r = 0; r < 100; ++r) {
    const auto row = ids.begin() + r * 6;
    row[2] = 5;  // layer 1: always 5 and 9
    row[3] = 9;
    row[4] = r < 75 ? 3 : 2;  // layer 2: expert 3 in 75 rows
    row[5] = 4 + r % 7;
  }
  auto source = test::source_of(shape, ids);
  EXPECT_THAT(count_routing(comm, source, {}).findings.suspicions,
              testing::ElementsAre("layer 1 (block 4): all 100 rows chose the same 2 experts",
                                   "layer 2 (block 5): expert 3 is in 75 % of the rows"));
  for (int r = 10; r < 25; ++r)
    for (int i = 0; i < 6; ++i) ids[static_cast<std::size_t>(r * 6 + i)] = i % 2;
  auto padded = test::source_of(shape, ids);
  EXPECT_THAT(count_routing(comm, padded, {.block_bytes = 60}).findings.suspicions,
              testing::Contains("15 of 100 rows are 0..1 in every layer: padding?"));
}

}  // namespace
}  // namespace relibra
