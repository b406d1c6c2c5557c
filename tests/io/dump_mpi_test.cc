// Dumps written and read by one or several ranks.
#include <gtest/gtest.h>

#include "io/dump_file.h"
#include "io/row_reader.h"
#include "lib/comm/agree.h"
#include "tests/support/dumps.h"
#include "tests/support/raw_file.h"

namespace relibra {
namespace {

using test::AllRows;
using test::DumpShape;
using test::TempFolder;

const std::vector<IdType> kTypes = {IdType::u8, IdType::i8, IdType::u16, IdType::i16, IdType::i32};

void expect_same_description(const RoutingDump& a, const RoutingDump& b) {
  EXPECT_EQ(a.header.step, b.header.step);
  EXPECT_EQ(a.header.num_experts, b.header.num_experts);
  EXPECT_EQ(a.header.top_k, b.header.top_k);
  EXPECT_EQ(a.header.layers, b.header.layers);
  EXPECT_EQ(a.header.num_micro_batches, b.header.num_micro_batches);
  EXPECT_EQ(a.header.optimizer_steps, b.header.optimizer_steps);
  EXPECT_EQ(a.header.missing_id, b.header.missing_id);
  EXPECT_EQ(a.header.has_weights, b.header.has_weights);
  EXPECT_EQ(a.header.model, b.header.model);
  EXPECT_EQ(a.header.producer, b.header.producer);
  EXPECT_EQ(a.sequences.row_offset, b.sequences.row_offset);
  EXPECT_EQ(a.sequences.row_start, b.sequences.row_start);
  EXPECT_EQ(a.sequences.num_tokens, b.sequences.num_tokens);
  EXPECT_EQ(a.sequences.micro_batch, b.sequences.micro_batch);
  EXPECT_EQ(a.sequences.source_rank, b.sequences.source_rank);
  EXPECT_EQ(a.sequences.prompt_tokens, b.sequences.prompt_tokens);
  EXPECT_EQ(a.sequences.group, b.sequences.group);
  EXPECT_EQ(a.sequences.domain, b.sequences.domain);
}

// This rank's share of the rows, against the same of the source in memory.
void expect_same_rows(RoutingSource& file, RoutingSource& memory, std::size_t block_bytes) {
  const Comm comm = Comm::world();
  const Range mine = share_of(file.dump().sequences.total_rows(), comm.rank(), comm.size());
  const AllRows a = test::read_rows(file, {mine}, block_bytes),
                b = test::read_rows(memory, {mine}, block_bytes);
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.weights, b.weights);
}

TEST(DumpFile, RoundTripOfEveryTypeContiguousAndCompressed) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  for (IdType type : kTypes)
    for (bool deflate : {false, true})
      for (bool extras : {false, true}) {
        auto memory = test::random_dump(
            {.type = type, .weights = extras, .columns = extras, .holes = type == IdType::i16 ? 0.2 : 0});
        io::write_dump(comm, memory, folder / "dump.h5", {.deflate = deflate});
        const auto file = io::open_dump(comm, {folder / "dump.h5"});
        EXPECT_EQ(file->id_type(), type);
        expect_same_description(file->dump(), memory.dump());
        for (std::size_t block_bytes : {1, 20, 1 << 20}) expect_same_rows(*file, memory, block_bytes);
      }
}

// More rows than one collective round of compressed chunks on one rank holds would take long; chunks of 4
// rows are forced by rows of 300 kB.
TEST(DumpFile, CompressedChunksOfFewRows) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  auto memory = test::random_dump(
      {.experts = 600, .top_k = 500, .layers = 600, .rows = {3, 0, 14, 6}, .type = IdType::u16});
  io::write_dump(comm, memory, folder / "dump.h5", {.deflate = true});
  const auto file = io::open_dump(comm, {folder / "dump.h5"});
  expect_same_rows(*file, memory, std::size_t{1} << 20);
}

TEST(DumpFile, ZeroRowsAndZeroSequences) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  for (bool deflate : {false, true})
    for (const auto& rows : {std::vector<std::int64_t>{}, std::vector<std::int64_t>{0, 0}}) {
      auto memory = test::random_dump({.rows = rows, .weights = true, .columns = true});
      io::write_dump(comm, memory, folder / "dump.h5", {.deflate = deflate});
      const auto file = io::open_dump(comm, {folder / "dump.h5"});
      expect_same_description(file->dump(), memory.dump());
      EXPECT_TRUE(test::read_rows(*file, {}).ids.empty());
      EXPECT_TRUE(test::read_rows(*file, {Range{0, 0}}).ids.empty());
    }
}

// Blocks stay inside ranges, come in order, and hold at most so many bytes; other ranks read something else.
TEST(DumpFile, HandsOutEachRanksOwnRanges) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  // L*K = 4 ids a row, 5 rows, u8
  if (comm.root()) test::tiny_dump().write(folder / "dump.h5");
  comm.barrier();
  const auto file = io::open_dump(comm, {folder / "dump.h5"});
  const std::vector<Range> ranges =
      comm.rank() % 2 == 0 ? std::vector<Range>{{0, 1}, {1, 1}, {2, 5}} : std::vector<Range>{};
  const AllRows got = test::read_rows(*file, ranges, 2 * 4);
  if (comm.rank() % 2 == 0) {
    EXPECT_EQ(got.blocks, (std::vector<Range>{{0, 1}, {2, 4}, {4, 5}}));
    EXPECT_EQ(got.ids, (std::vector<int>{0, 1, 1, 2, 2, 3, 3, 0, 3, 0, 0, 1, 0, 1, 1, 2}));
    EXPECT_EQ(file->bytes_read(), 4 * 4);
  } else {
    EXPECT_TRUE(got.ids.empty());
  }
}

TEST(DumpFile, AnExceptionOutOfTakeLeavesAllRanksTogether) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  if (comm.root()) test::tiny_dump().write(folder / "dump.h5");
  comm.barrier();
  const auto file = io::open_dump(comm, {folder / "dump.h5"});
  const int last = comm.size() - 1;
  const std::vector<Range> all = {{0, 5}};
  try {
    file->read(all, 4, false, [&](const RoutingBlock& block) {
      if (comm.rank() == last && block.first_row == 1) throw_input({.where = "take", .found = "row 1"});
    });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_TRUE(error.agreed());
    EXPECT_STREQ(error.what(), "take: found row 1");
  }
  EXPECT_EQ(test::read_rows(*file, all).ids.size(), 20u) << "the source still works";
}

}  // namespace
}  // namespace relibra
