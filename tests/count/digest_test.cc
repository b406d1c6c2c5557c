#include "lib/count/digest.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "lib/comm/comm.h"
#include "lib/count/count.h"
#include "lib/model/memory_source.h"
#include "tests/support/shared_data.h"

namespace relibra {
namespace {

TEST(Digest, TextHasSixteenDigits) {
  EXPECT_EQ(digest_text(255), "c1-00000000000000ff");
  EXPECT_EQ(digest_text(~std::uint64_t{0}), "c1-ffffffffffffffff");
}

/// The int16 values behind the header of a version 1 .npy file.
std::vector<std::int16_t> read_npy(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  const std::string bytes = all.str();
  if (bytes.size() < 10) return {};
  const std::size_t header =
      10 + static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  std::vector<std::int16_t> values((bytes.size() - header) / 2);
  std::copy_n(bytes.data() + header, values.size() * 2, reinterpret_cast<char*>(values.data()));
  return values;
}

// The digests that docs/formats.md gives for the three records, (117, 27, 6) ids of 64 experts.
TEST(Digest, OfTheRecordsIsAsPublished) {
  const auto folder = test::shared_folder() / "data/megatron_ds16b";
  const std::pair<const char*, const char*> records[] = {{"eager_eb80b74", "c1-4e8499995f72413e"},
                                                         {"eager_ecb5dfa", "c1-d6d58806f4eea1e9"},
                                                         {"cudagraph_eb80b74", "c1-399d6400a5b1dff8"}};
  for (const auto& [name, digest] : records) {
    const auto path = folder / (std::string("megatron_ds16b_") + name + "_117x27x6_int16.npy");
    const auto ids = read_npy(path);
    if (ids.empty()) GTEST_SKIP() << "no " << path << "; set RELIBRA_SHARED";
    RoutingDump dump;
    dump.header.num_experts = 64;
    dump.header.top_k = 6;
    for (int l = 0; l < 27; ++l) dump.header.layers.push_back(l + 1);
    dump.sequences.row_offset = {0, 117};
    MemorySource records_source(dump, ids);
    EXPECT_EQ(count_routing(Comm::world(), records_source, {}).digest, digest) << name;
  }
}

}  // namespace
}  // namespace relibra
