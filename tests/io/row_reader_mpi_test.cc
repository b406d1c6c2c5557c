// Reading of rows by all ranks together: that it is collective, and that damage to the rows of one rank ends
// all.
#include "io/row_reader.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

#include "io/dump_file.h"
#include "lib/comm/agree.h"
#include "tests/support/dumps.h"
#include "tests/support/raw_file.h"

namespace relibra {
namespace {

using test::RawFile;
using test::TempFolder;
using testing::HasSubstr;

TEST(PiecesToRead, ChunksAreNotCut) {
  // L*K = 1 byte a row. Chunks of 4, blocks of 10: 8 rows at a time, from the start of a chunk on.
  const RoutingHeader header{.num_experts = 4, .top_k = 1, .layers = {0}};
  const std::vector<Range> ranges = {{3, 21}};
  EXPECT_EQ(io::pieces_to_read(ranges, header, {.id_type = IdType::u8, .chunk_rows = 4}, 10),
            (std::vector<Range>{{3, 8}, {8, 16}, {16, 21}}));
  EXPECT_EQ(io::pieces_to_read(ranges, header, {.id_type = IdType::u8, .chunk_rows = 4}, 2),
            (std::vector<Range>{{3, 4}, {4, 8}, {8, 12}, {12, 16}, {16, 20}, {20, 21}}));
  EXPECT_EQ(io::pieces_to_read(ranges, header, {.id_type = IdType::u8}, 10),
            (std::vector<Range>{{3, 13}, {13, 21}}));
}

RawFile rows_of_bytes(std::int64_t rows) {
  RawFile raw = test::tiny_dump();
  raw["sequences/row_offset"] = {.type = H5T_STD_I64LE, .shape = {2}, .values = {0, rows}};
  auto& experts = raw["experts"];
  experts.shape[0] = rows;
  experts.values.clear();
  for (std::int64_t i = 0; i < 4 * rows; ++i) experts.values.push_back((i / 2 * 7 + i % 2) % 4);
  return raw;
}

TEST(RowReader, ReadsContiguousAndChunkedRowsCollectively) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  for (std::int64_t chunk : {0, 10}) {
    RawFile raw = rows_of_bytes(100);
    if (chunk > 0) raw["experts"].chunk = {chunk, 2, 2};
    if (comm.root()) raw.write(folder / "dump.h5");
    comm.barrier();
    const io::Shard shard = io::read_shard(folder / "dump.h5");
    EXPECT_EQ(shard.storage.chunk_rows, 0) << "no filter, nothing to decode";
    io::RowReader reader(io::h5::File::open(comm, folder / "dump.h5"), shard.header, shard.storage, false,
                         io::h5::Transfer::collective());
    reader.read(share_of(100, comm.rank(), comm.size()));
    EXPECT_TRUE(reader.transfer().was_collective()) << "chunk " << chunk;
  }
}

// Blocks in a file of bytes that no inflate accepts, in the last chunk only: one rank meets it, all leave.
TEST(DumpFile, DamagedRowsOfOneRankEndAllRanks) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  const std::string path = folder / "dump.h5";
  if (comm.root()) {
    RawFile raw = rows_of_bytes(4096);
    raw["experts"].chunk = {256, 2, 2};
    raw["experts"].deflate = true;
    raw.write(path);
    std::ifstream in(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const auto last = bytes.rfind("\x78\x01");  // the head of a zlib stream at level 1
    ASSERT_NE(last, std::string::npos);
    for (std::size_t i = 2; i < 10; ++i) bytes[last + i] = static_cast<char>(0xFF);
    std::ofstream(path, std::ios::binary) << bytes;
  }
  comm.barrier();
  const auto source = io::open_dump(comm, {path});
  try {
    test::read_rows(*source, {share_of(4096, comm.rank(), comm.size())}, 1024);
    FAIL() << "no error on rank " << comm.rank();
  } catch (const Error& error) {
    EXPECT_TRUE(error.agreed());
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_THAT(error.what(), HasSubstr("dump.h5:/experts: found HDF5 failure in "));
  }
}

}  // namespace
}  // namespace relibra
