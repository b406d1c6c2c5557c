#include "lib/model/memory_source.h"

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/model/blocks.h"

namespace relibra {
namespace {

// E = 4, K = 2, L = 1; sequences of 2, 0 and 3 rows; row r holds {r % 4, (r + 1) % 4}.
RoutingDump five_rows() {
  RoutingDump dump;
  dump.header = {.num_experts = 4, .top_k = 2, .layers = {0}};
  dump.sequences.row_offset = {0, 2, 2, 5};
  return dump;
}

const std::vector<int> kIds = {0, 1, 1, 2, 2, 3, 3, 0, 0, 1};

TEST(Cut, PiecesNeverSpanTwoRangesAndEmptyOnesVanish) {
  const std::vector<Range> ranges = {{0, 5}, {5, 5}, {8, 10}};
  EXPECT_EQ(cut(ranges, 3), (std::vector<Range>{{0, 3}, {3, 5}, {8, 10}}));
}

TEST(MemorySource, HandsOutRangesInBlocksForEveryType) {
  for (IdType type : {IdType::u8, IdType::i8, IdType::u16, IdType::i16, IdType::i32}) {
    auto source = MemorySource::with_type(five_rows(), type, kIds);
    std::vector<Range> blocks;
    std::vector<int> seen;
    const std::vector<Range> ranges = {{0, 1}, {2, 5}};
    source.read(ranges, 2 * 2 * size_of(type), true, [&](const RoutingBlock& block) {  // two rows a block
      EXPECT_EQ(block.type, type);
      EXPECT_EQ(block.weights, nullptr);
      blocks.push_back({block.first_row, block.first_row + block.rows});
      block.with_ids([&](const auto* ids) { seen.insert(seen.end(), ids, ids + 2 * block.rows); });
    });
    EXPECT_EQ(blocks, (std::vector<Range>{{0, 1}, {2, 4}, {4, 5}}));
    EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 3, 0, 0, 1}));
    EXPECT_EQ(source.bytes_read(), static_cast<std::int64_t>(4 * 2 * size_of(type)));
  }
}

TEST(MemorySource, ABlockHoldsAtLeastOneRow) {
  auto source = MemorySource::with_type(five_rows(), IdType::i32, kIds);
  int blocks = 0;
  const std::vector<Range> whole = {{0, 5}};
  source.read(whole, 1, false, [&](const RoutingBlock& block) {
    EXPECT_EQ(block.rows, 1);
    ++blocks;
  });
  EXPECT_EQ(blocks, 5);
}

TEST(MemorySource, WeightsComeOnlyWhereAskedFor) {
  std::vector<float> weights(10);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i);
  auto source = MemorySource::with_type(five_rows(), IdType::u8, kIds, weights);
  EXPECT_TRUE(source.dump().header.has_weights);
  const std::vector<Range> last = {{4, 5}};
  source.read(last, 1024, true, [](const RoutingBlock& block) { EXPECT_EQ(block.weights[1], 9.0f); });
  source.read(last, 1024, false, [](const RoutingBlock& block) { EXPECT_EQ(block.weights, nullptr); });
}

TEST(MemorySource, TokensDefaultToRows) {
  const auto source = MemorySource::with_type(five_rows(), IdType::u8, kIds);
  EXPECT_EQ(source.dump().sequences.num_tokens, (std::vector<std::int64_t>{2, 0, 3}));
}

TEST(MemorySource, RefusesSizesThatDisagreeAndIdsThatDoNotFit) {
  EXPECT_THROW(MemorySource(five_rows(), std::vector<std::uint8_t>(9)), Error);
  EXPECT_THROW(MemorySource(five_rows(), std::vector<std::uint8_t>(10), {1.0f}), Error);
  EXPECT_THROW(MemorySource::with_type(five_rows(), IdType::i8, std::vector<int>(10, 128)), Error);
}

}  // namespace
}  // namespace relibra
