#include "lib/count/row_kernel.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "tests/count/random_routing.h"

namespace relibra {
namespace {

using test::Shape;
using Method = RowKernel::Method;

struct Counted {
  std::vector<std::uint32_t> table;
  RowTally tally;
};

Counted count_with(Method method, RoutingSource& source, Range layers) {
  const RowShape shape(source.dump().header);
  Counted result{std::vector<std::uint32_t>(static_cast<std::size_t>(layers.size() * shape.experts)), {}};
  RowKernel kernel(shape, source.id_type(), layers, method);
  const Range rows{0, source.dump().sequences.total_rows()};
  source.read(std::span(&rows, 1), std::size_t{1} << 30, false, [&](const RoutingBlock& block) {
    kernel.count({block.type, block.ids, block.rows, 100}, result.table.data());
  });
  result.tally = kernel.tally();
  return result;
}

/// The same counts and tally as id by id, for the whole row and for a part of the layers.
void expect_equal_methods(const Shape& shape, const std::vector<int>& ids) {
  auto source = test::source_of(shape, ids);
  const RowShape row(source.dump().header);
  if (RowKernel::best_method(row, shape.type) != Method::one_hot) return;
  for (const Range layers : {Range{0, shape.layers}, Range{shape.layers / 3, shape.layers / 2 + 1}}) {
    const auto slow = count_with(Method::table, source, layers),
               fast = count_with(Method::one_hot, source, layers);
    EXPECT_EQ(slow.tally.missing, fast.tally.missing);
    EXPECT_EQ(slow.tally.out_of_range, fast.tally.out_of_range);
    EXPECT_EQ(slow.tally.repeated, fast.tally.repeated);
    EXPECT_EQ(slow.tally.first.row, fast.tally.first.row);
    EXPECT_EQ(slow.tally.first.layer, fast.tally.first.layer);
    EXPECT_EQ(slow.tally.first.kind, fast.tally.first.kind);
    EXPECT_EQ(slow.tally.first.id, fast.tally.first.id);
    if (slow.tally.faults() == 0) {
      EXPECT_EQ(slow.table, fast.table);
    }
  }
}

class Methods : public testing::TestWithParam<std::tuple<IdType, int>> {};

std::vector<int> top_ks(int experts) {
  std::vector<int> fitting;
  for (const int top_k : {1, 2, 3, 6, 8, 9, 16})
    if (top_k <= experts) fitting.push_back(top_k);
  return fitting;
}

int largest_id(IdType type) {
  constexpr std::array<int, 5> kLargest{255, 127, 65535, 32767, 1 << 20};
  return kLargest[static_cast<std::size_t>(type)];
}

// Clean rows; then rows without routes; then single routes missing; then faults among all of that.
TEST_P(Methods, AgreeOnCountsMissingAndFaults) {
  const auto [type, experts] = GetParam();
  const bool is_signed = type == IdType::i8 || type == IdType::i16 || type == IdType::i32;
  if (experts - 1 > largest_id(type)) GTEST_SKIP() << "ids do not fit";
  std::uint64_t seed = 0;
  for (const int top_k : top_ks(experts))
    for (const std::int64_t rows : {1, 17, 240, 500}) {
      SCOPED_TRACE("K " + std::to_string(top_k) + " rows " + std::to_string(rows));
      Shape shape{.experts = experts, .top_k = top_k, .layers = 11, .rows = {rows}, .type = type};
      expect_equal_methods(shape, test::random_ids(shape, ++seed));
      if (is_signed || experts <= largest_id(type)) {
        shape.missing = is_signed ? -1 : largest_id(type);
        shape.holes = 0.05;
        expect_equal_methods(shape, test::random_ids(shape, ++seed));
        shape.partial_holes = 0.01;
        expect_equal_methods(shape, test::random_ids(shape, ++seed));
      }
      auto ids = test::random_ids(shape, ++seed);
      Random random(seed);
      for (int fault = 0; fault < 5; ++fault) {
        const auto at = random.below(static_cast<std::uint32_t>(ids.size()));
        ids[at] = fault % 2 == 0 ? ids[at / static_cast<unsigned>(top_k) * static_cast<unsigned>(top_k)]
                                 : std::min(largest_id(type), experts + static_cast<int>(random.below(300)));
      }
      expect_equal_methods(shape, ids);
    }
}

INSTANTIATE_TEST_SUITE_P(TypesAndExperts, Methods,
                         testing::Combine(testing::Values(IdType::u8, IdType::i8, IdType::u16, IdType::i16,
                                                          IdType::i32),
                                          testing::Values(1, 8, 60, 64, 65, 127, 128, 160, 192, 255, 256)));

// More experts or a larger K than bits can do: the table, against the slow recount.
TEST(RowKernel, TableCountsWhatBitsCannot) {
  for (const auto& [experts, top_k] : {std::pair{257, 8}, {384, 8}, {512, 10}, {64, 12}}) {
    const Shape shape{.experts = experts, .top_k = top_k, .layers = 5, .rows = {300}, .type = IdType::i16};
    const auto ids = test::random_ids(shape, 5);
    auto source = test::source_of(shape, ids);
    EXPECT_EQ(RowKernel::best_method(RowShape(source.dump().header), shape.type), Method::table);
    const auto counted = count_with(Method::table, source, {0, 5});
    std::vector<std::uint32_t> expected(counted.table.size());
    for (const auto& [at, count] : test::slow_counts(shape, ids))
      expected[static_cast<std::size_t>(std::get<0>(at) * experts + std::get<2>(at))] = count;
    EXPECT_EQ(counted.table, expected);
    EXPECT_EQ(counted.tally.faults() + counted.tally.missing, 0);
  }
}

// Bytes below zero must not be taken for experts 128 to 255.
TEST(RowKernel, NegativeBytesAreMissing) {
  for (const int experts : {128, 200}) {
    const Shape shape{.experts = experts, .top_k = 2, .layers = 1, .rows = {3}, .type = IdType::i8};
    auto source = test::source_of(shape, {5, -1, -128, 127, 3, 4});
    const auto counted =
        count_with(RowKernel::best_method(RowShape(source.dump().header), shape.type), source, {0, 1});
    EXPECT_EQ(counted.tally.missing, 2);
    EXPECT_EQ(counted.tally.faults(), 0);
    EXPECT_EQ(counted.table[127], 1u);
    EXPECT_EQ(std::accumulate(counted.table.begin(), counted.table.end(), 0u), 4u);
  }
}

}  // namespace
}  // namespace relibra
