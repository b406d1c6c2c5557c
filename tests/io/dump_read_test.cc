// What readers must take: every type, layout and kind of string that producers use.
#include <gmock/gmock.h>

#include "io/dump_file.h"
#include "tests/support/dumps.h"
#include "tests/support/raw_file.h"

namespace relibra {
namespace {

using test::RawFile;
using test::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class DumpRead : public testing::Test {
 protected:
  std::unique_ptr<RoutingSource> open(const RawFile& raw) {
    raw.write(folder_ / "dump.h5");
    return io::open_dump(Comm::world(), {folder_ / "dump.h5"});
  }
  TempFolder folder_;
  RawFile raw_ = test::tiny_dump();
  // Row r, layer l holds {(r + l) % 4, (r + l + 1) % 4}.
  const std::vector<int> ids_ = {0, 1, 1, 2, 1, 2, 2, 3, 2, 3, 3, 0, 3, 0, 0, 1, 0, 1, 1, 2};
  const std::vector<Range> all_ = {{0, 5}};
};

TEST_F(DumpRead, TheTinyDump) {
  const auto source = open(raw_);
  const auto& dump = source->dump();
  EXPECT_EQ(dump.header.step, 7);
  EXPECT_EQ(dump.header.num_experts, 4);
  EXPECT_EQ(dump.header.top_k, 2);
  EXPECT_THAT(dump.header.layers, ElementsAre(3, 5));
  EXPECT_EQ(dump.header.num_micro_batches, std::nullopt);
  EXPECT_EQ(dump.header.optimizer_steps, 1);
  EXPECT_EQ(dump.header.missing_id, std::nullopt);
  EXPECT_FALSE(dump.header.has_weights);
  EXPECT_THAT(dump.sequences.row_offset, ElementsAre(0, 2, 2, 5));
  EXPECT_THAT(dump.sequences.num_tokens, ElementsAre(2, 0, 3));
  EXPECT_THAT(dump.sequences.micro_batch, IsEmpty());
  EXPECT_THAT(dump.sequences.domain, IsEmpty());
  EXPECT_EQ(source->id_type(), IdType::u8);
  EXPECT_EQ(test::read_rows(*source, all_).ids, ids_);
}

TEST_F(DumpRead, EveryIntegerTypeOfEitherEndianness) {
  const std::pair<hid_t, IdType> types[] = {
      {H5T_STD_U8LE, IdType::u8},   {H5T_STD_I8LE, IdType::i8},   {H5T_STD_U16LE, IdType::u16},
      {H5T_STD_I16LE, IdType::i16}, {H5T_STD_I32LE, IdType::i32}, {H5T_STD_U32LE, IdType::i32},
      {H5T_STD_I64LE, IdType::i32}, {H5T_STD_U64LE, IdType::i32}, {H5T_STD_I16BE, IdType::i16},
      {H5T_STD_I32BE, IdType::i32}, {H5T_STD_U64BE, IdType::i32}};
  for (const auto& [stored, in_memory] : types) {
    raw_["experts"].type = stored;
    const auto source = open(raw_);
    EXPECT_EQ(source->id_type(), in_memory);
    EXPECT_EQ(test::read_rows(*source, all_, 17).ids, ids_);
  }
}

TEST_F(DumpRead, EveryLayout) {
  for (const std::vector<std::int64_t>& chunk :
       {std::vector<std::int64_t>{5, 2, 2}, {2, 2, 2}, {1, 1, 1}, {3, 1, 2}, {4, 2, 1}})
    for (bool deflate : {false, true}) {
      raw_["experts"].chunk = chunk;
      raw_["experts"].deflate = deflate;
      for (std::size_t block_bytes : {1, 8, 1000}) {
        const auto got = test::read_rows(*open(raw_), {{0, 1}, {2, 5}}, block_bytes);
        std::vector<int> expected(ids_.begin(), ids_.begin() + 4);
        expected.insert(expected.end(), ids_.begin() + 8, ids_.end());
        EXPECT_EQ(got.ids, expected);
        for (const Range& block : got.blocks)
          EXPECT_LE(block.size(), std::max<std::int64_t>(1, static_cast<std::int64_t>(block_bytes) / 4));
      }
    }
}

// Wide ids that mean "no route" need not fit 32 bits; others must.
TEST_F(DumpRead, WideIdsAreNarrowedWithARangeCheck) {
  auto& experts = raw_["experts"];
  experts.type = H5T_STD_I64LE;
  raw_.set("missing_id", 0);
  raw_.attributes["missing_id"] = {.type = H5T_STD_I64LE, .value = std::int64_t{1} << 40};
  experts.values[0] = std::int64_t{1} << 40;
  experts.values[1] = -(std::int64_t{1} << 40);
  const auto got = test::read_rows(*open(raw_), all_).ids;
  EXPECT_EQ(got[0], -1);
  EXPECT_EQ(got[1], -1);
  EXPECT_EQ(got[2], 1);

  experts.values[4 * 3 + 2] = std::int64_t{1} << 41;
  const auto source = open(raw_);
  try {
    test::read_rows(*source, all_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_THAT(
        error.what(),
        HasSubstr("dump.h5:/experts: expected ids that fit 32 bits, found 2199023255552 in row 3, layer 1"));
  }
}

TEST_F(DumpRead, WeightsOfHalfAndSinglePrecisionOnlyWhereAskedFor) {
  for (hid_t type : {H5T_IEEE_F32LE, test::half_type()}) {
    auto& weights = raw_["weights"];
    weights = {.type = type, .shape = {5, 2, 2}};
    for (int i = 0; i < 20; ++i) weights.reals.push_back(i / 32.0);
    const auto source = open(raw_);
    EXPECT_TRUE(source->dump().header.has_weights);
    const auto got = test::read_rows(*source, {{1, 3}}, 4);
    EXPECT_THAT(got.weights, ElementsAre(4 / 32.f, 5 / 32.f, 6 / 32.f, 7 / 32.f, 8 / 32.f, 9 / 32.f,
                                         10 / 32.f, 11 / 32.f));
    EXPECT_THAT(test::read_rows(*source, {{1, 3}}, 4, false).weights, IsEmpty());
  }
}

TEST_F(DumpRead, EveryOptionalColumnAndAttribute) {
  raw_.set("num_micro_batches", 4);
  raw_.set("optimizer_steps", 2);
  raw_.set("missing_id", 255);
  raw_.set("id_space", "logical");
  raw_.set("model", "Modell-ü");
  raw_.attributes["producer"] = {.text = "by hand", .is_text = true, .variable = true};
  raw_.set("shard", 0);
  raw_.set("num_shards", 1);
  raw_["sequences/row_start"] = {.type = H5T_STD_U16LE, .shape = {3}, .values = {10, 0, 20}};
  raw_["sequences/num_tokens"] = {.type = H5T_STD_U8LE, .shape = {3}, .values = {13, 1, 23}};
  raw_["sequences/micro_batch"] = {.type = H5T_STD_I64LE, .shape = {3}, .values = {3, 0, 1}};
  raw_["sequences/source_rank"] = {.type = H5T_STD_I16LE, .shape = {3}, .values = {0, 7, 1}};
  raw_["sequences/prompt_tokens"] = {.shape = {3}, .values = {5, 6, 7}};
  raw_["sequences/group"] = {.shape = {3}, .values = {1, 1, 2}};
  raw_["nobody/knows"] = {.shape = {1}, .values = {1}};
  for (bool variable : {false, true}) {
    raw_["sequences/domain"] = {
        .shape = {3}, .strings = {"code", "", "chat-ß"}, .variable_strings = variable};
    const auto source = open(raw_);
    const auto& dump = source->dump();
    EXPECT_EQ(dump.header.num_micro_batches, 4);
    EXPECT_EQ(dump.header.optimizer_steps, 2);
    EXPECT_EQ(dump.header.missing_id, 255);
    EXPECT_EQ(dump.header.model, "Modell-ü");
    EXPECT_EQ(dump.header.producer, "by hand");
    EXPECT_THAT(dump.sequences.row_start, ElementsAre(10, 0, 20));
    EXPECT_THAT(dump.sequences.num_tokens, ElementsAre(13, 1, 23));
    EXPECT_THAT(dump.sequences.micro_batch, ElementsAre(3, 0, 1));
    EXPECT_THAT(dump.sequences.source_rank, ElementsAre(0, 7, 1));
    EXPECT_THAT(dump.sequences.prompt_tokens, ElementsAre(5, 6, 7));
    EXPECT_THAT(dump.sequences.group, ElementsAre(1, 1, 2));
    EXPECT_THAT(dump.sequences.domain, ElementsAre("code", "", "chat-ß"));
  }
}

TEST_F(DumpRead, TokensDefaultToStartPlusRows) {
  raw_["sequences/row_start"] = {.type = H5T_STD_I64LE, .shape = {3}, .values = {10, 4, 0}};
  EXPECT_THAT(open(raw_)->dump().sequences.num_tokens, ElementsAre(12, 4, 3));
}

// Shards named out of order are joined by number: shard 0 holds rows 0 to 4, shard 1 has ids one higher.
TEST_F(DumpRead, ShardsInAnyOrder) {
  RawFile second = raw_;
  for (auto& id : second["experts"].values) id = (id + 1) % 4;
  second["sequences/row_offset"].values = {0, 1, 4, 5};
  raw_.set("shard", 0), raw_.set("num_shards", 2);
  second.set("shard", 1), second.set("num_shards", 2);
  raw_["sequences/group"] = {.shape = {3}, .values = {0, 1, 2}};
  second["sequences/group"] = {.shape = {3}, .values = {3, 4, 5}};
  raw_.write(folder_ / "z.h5");
  second.write(folder_ / "a.h5");
  const auto source = io::open_dump(Comm::world(), {folder_ / "a.h5", folder_ / "z.h5"});
  EXPECT_THAT(source->dump().sequences.row_offset, ElementsAre(0, 2, 2, 5, 6, 9, 10));
  EXPECT_THAT(source->dump().sequences.group, ElementsAre(0, 1, 2, 3, 4, 5));
  // Rows 4 (last of shard 0) and 5 to 6 (first of shard 1): a block ends at the border.
  const auto got = test::read_rows(*source, {{4, 7}});
  EXPECT_EQ(got.ids, (std::vector<int>{0, 1, 1, 2, 1, 2, 2, 3, 2, 3, 3, 0}));
  EXPECT_EQ(got.blocks, (std::vector<Range>{{4, 5}, {5, 7}}));
}

/// Replaces /experts of a file by a (5, 2, 2) u8 dataset with this creation list.
void replace_experts(const std::string& path, hid_t creation) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(H5Ldelete(file, "experts", H5P_DEFAULT), 0);
  const hsize_t shape[] = {5, 2, 2};
  const hid_t space = H5Screate_simple(3, shape, nullptr);
  const hid_t id = H5Dcreate2(file, "experts", H5T_STD_U8LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ASSERT_GE(id, 0);
  H5Dclose(id), H5Sclose(space), H5Pclose(creation), H5Fclose(file);
}

// Parallel HDF5 cannot read a dataset that is put together from other files; each process reads it alone.
TEST_F(DumpRead, VirtualDataset) {
  raw_.write(folder_ / "real.h5");
  raw_.write(folder_ / "virtual.h5");
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t shape[] = {5, 2, 2};
  const hid_t space = H5Screate_simple(3, shape, nullptr);
  ASSERT_GE(H5Pset_virtual(creation, space, (folder_ / "real.h5").c_str(), "experts", space), 0);
  H5Sclose(space);
  replace_experts(folder_ / "virtual.h5", creation);
  const auto source = io::open_dump(Comm::world(), {folder_ / "virtual.h5"});
  EXPECT_EQ(test::read_rows(*source, all_, 8).ids, ids_);
}

TEST_F(DumpRead, FilterThatIsNotInstalled) {
  raw_.write(folder_ / "dump.h5");
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk[] = {5, 2, 2};
  H5Pset_chunk(creation, 3, chunk);
  ASSERT_GE(H5Pset_filter(creation, 257, H5Z_FLAG_OPTIONAL, 0, nullptr), 0);  // of the range for testing
  replace_experts(folder_ / "dump.h5", creation);
  try {
    io::open_dump(Comm::world(), {folder_ / "dump.h5"});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("dump.h5:/experts: expected filters that this HDF5 has, found filter 257"));
  }
}

TEST_F(DumpRead, StepsOfFiles) {
  raw_.write(folder_ / "a.h5");
  raw_.set("step", -3);
  raw_.write(folder_ / "b.h5");
  EXPECT_THAT(io::steps_of(Comm::world(), {folder_ / "b.h5", folder_ / "a.h5"}), ElementsAre(-3, 7));
}

}  // namespace
}  // namespace relibra
