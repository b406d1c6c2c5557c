#include "io/npy_file.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "lib/base/error.h"

namespace relibra::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A folder of this test's own, removed at its end.
class NpyFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  template <class T>
  std::string write(const std::string& name, const std::string& dictionary, const std::vector<T>& values) {
    const std::string path = folder_ / name;
    std::ofstream file(path, std::ios::binary);
    const auto length = static_cast<std::uint16_t>(dictionary.size() + 1);
    file << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(length & 255) << static_cast<char>(length >> 8)
         << dictionary << '\n';
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(T)));
    return path;
  }
  static std::string dictionary(const char* type, const char* shape, const char* fortran = "False") {
    return std::string("{'descr': '") + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape +
           ", }";
  }
  std::string error_of(const NpyRouting& what) {
    try {
      open_npy(Comm::world(), what);
    } catch (const Error& error) {
      EXPECT_TRUE(error.agreed());
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("relibra-npy-" + std::to_string(getpid()));
};

/// All ids in order, block by block.
std::vector<int> all_ids(RoutingSource& source, std::size_t block_bytes) {
  std::vector<int> ids;
  const Range everything{0, source.dump().sequences.total_rows()};
  const auto width = static_cast<std::size_t>(source.dump().header.num_layers() * source.dump().header.top_k);
  source.read({&everything, 1}, block_bytes, false, [&](const RoutingBlock& block) {
    block.with_ids([&](const auto* p) { ids.insert(ids.end(), p, p + width * std::size_t(block.rows)); });
  });
  return ids;
}

TEST_F(NpyFile, ThreeRowsOfTwoLayersBecomeTwoSequences) {
  const auto ids =
      write<std::int16_t>("ids.npy", dictionary("<i2", "(3, 2, 2)"), {0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 4, 6});
  const auto rows = write<std::int64_t>("rows.npy", dictionary("<i8", "(2,)"), {2, 1});
  const auto source =
      open_npy(Comm::world(), {.ids = ids, .rows = rows, .num_experts = 8, .step = 5, .first_layer = 3});
  EXPECT_EQ(source->id_type(), IdType::i16);
  EXPECT_EQ(source->dump().header.step, 5);
  EXPECT_EQ(source->dump().header.top_k, 2);
  EXPECT_THAT(source->dump().header.layers, ElementsAre(3, 4));
  EXPECT_THAT(source->dump().sequences.row_offset, ElementsAre(0, 2, 3));
  EXPECT_THAT(source->dump().sequences.num_tokens, ElementsAre(3, 2));
  const auto whole = all_ids(*source, 1 << 20);
  EXPECT_THAT(whole, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 4, 6));
  EXPECT_EQ(all_ids(*source, 1), whole);  // a row at a time
}

TEST_F(NpyFile, WideIdsAreNarrowed) {
  const auto ids = write<std::int64_t>("ids.npy", dictionary("<i8", "(2, 1, 2)"), {0, -1, 300, 7});
  const auto source = open_npy(Comm::world(), {.ids = ids, .num_experts = 512});
  EXPECT_EQ(source->id_type(), IdType::i32);
  EXPECT_THAT(all_ids(*source, 1 << 20), ElementsAre(0, -1, 300, 7));
  const auto far = write<std::int64_t>("far.npy", dictionary("<i8", "(1, 1, 1)"), {std::int64_t{1} << 40});
  const auto bad = open_npy(Comm::world(), {.ids = far, .num_experts = 512});
  EXPECT_THROW(all_ids(*bad, 1 << 20), Error);
}

TEST_F(NpyFile, UnsignedWideIdsToo) {
  for (const char* type : {"<u4", "<u8"}) {
    const auto path = std::string(type) == "<u4"
                          ? write<std::uint32_t>("u.npy", dictionary(type, "(1, 1, 3)"), {0, 7, 300})
                          : write<std::uint64_t>("u.npy", dictionary(type, "(1, 1, 3)"), {0, 7, 300});
    const auto source = open_npy(Comm::world(), {.ids = path, .num_experts = 512});
    EXPECT_THAT(all_ids(*source, 1 << 20), ElementsAre(0, 7, 300));
  }
  const auto far = write<std::uint64_t>("far.npy", dictionary("<u8", "(1, 1, 1)"), {~std::uint64_t{0}});
  const auto bad = open_npy(Comm::world(), {.ids = far, .num_experts = 512});
  EXPECT_THROW(all_ids(*bad, 1 << 20), Error) << "all ones are no -1 where the type is unsigned";
}

// Header versions 2 and 3 have a length of four bytes.
TEST_F(NpyFile, LongHeaders) {
  for (char version : {'\x02', '\x03'}) {
    const std::string header = dictionary("|u1", "(1, 2, 1)") + "\n", path = folder_ / "long.npy";
    const auto length = static_cast<char>(header.size());
    std::ofstream(path, std::ios::binary)
        << "\x93NUMPY" << version << '\0' << length << '\0' << '\0' << '\0' << header << '\x05' << '\x06';
    const auto source = open_npy(Comm::world(), {.ids = path, .num_experts = 8});
    EXPECT_THAT(all_ids(*source, 1 << 20), ElementsAre(5, 6));
  }
}

TEST_F(NpyFile, LengthsAsText) {
  const auto ids = write<std::int16_t>("ids.npy", dictionary("<i2", "(3, 1, 1)"), {0, 1, 2});
  const std::string rows = folder_ / "rows.txt";
  const auto with = [&](const char* text) {
    std::ofstream(rows) << text;
    return NpyRouting{.ids = ids, .rows = rows, .num_experts = 8};
  };
  const auto source = open_npy(Comm::world(), with("2\n0\n1\n"));
  EXPECT_THAT(source->dump().sequences.row_offset, ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(error_of(with("2\none\n")), HasSubstr("something else after 1 numbers"));
  EXPECT_THAT(error_of(with("2\n2\n")), HasSubstr("sum to the 3 rows"));
  EXPECT_THAT(error_of({.ids = ids, .rows = folder_ / "none.txt", .num_experts = 8}), HasSubstr("none.txt"));
}

TEST_F(NpyFile, FaultsNameTheFile) {
  const std::vector<std::int16_t> four{0, 1, 2, 3};
  const auto error = [&](const std::string& path) { return error_of({.ids = path, .num_experts = 8}); };
  EXPECT_THAT(error(folder_ / "none.npy"), HasSubstr("none.npy"));
  EXPECT_THAT(error(write("flat.npy", dictionary("<i2", "(2, 2)"), four)),
              HasSubstr("(rows, layers, top-k)"));
  EXPECT_THAT(error(write("short.npy", dictionary("<i2", "(3, 1, 2)"), four)), HasSubstr("12 bytes"));
  EXPECT_THAT(error(write("f.npy", dictionary("<i2", "(2, 1, 2)", "True"), four)), HasSubstr("Fortran"));
  EXPECT_THAT(error(write("float.npy", dictionary("<f4", "(1, 1, 2)"), four)), HasSubstr("<f4"));
  EXPECT_THAT(error(write("big.npy", dictionary(">i2", "(2, 1, 2)"), four)), HasSubstr("little-endian"));
  EXPECT_THAT(error(write("nokey.npy", "{'descr': '<i2'}", four)), HasSubstr("fortran_order"));
  EXPECT_THAT(error(write("huge.npy", dictionary("<i2", "(99999999999, 99999999999, 99999999999)"), four)),
              HasSubstr("2^58"));
  std::ofstream(folder_ / "text.npy") << "not numpy at all";
  EXPECT_THAT(error(folder_ / "text.npy"), HasSubstr(".npy file"));
}

TEST_F(NpyFile, LengthsMustCoverTheRows) {
  const auto ids = write<std::int16_t>("ids.npy", dictionary("<i2", "(2, 1, 2)"), {0, 1, 2, 3});
  const auto rows = write<std::int32_t>("rows.npy", dictionary("<i4", "(2,)"), {2, 1});
  EXPECT_THAT(error_of({.ids = ids, .rows = rows, .num_experts = 8}), HasSubstr("sum to the 2 rows"));
  const auto negative = write<std::int32_t>("negative.npy", dictionary("<i4", "(2,)"), {3, -1});
  EXPECT_THAT(error_of({.ids = ids, .rows = negative, .num_experts = 8}), HasSubstr("-1"));
}

}  // namespace
}  // namespace relibra::io
