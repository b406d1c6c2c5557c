// Dumps from a trained language model: digests as the independent checker prints them, also of our copies.
#include <gtest/gtest.h>

#include "io/dump_file.h"
#include "lib/count/count.h"
#include "tests/support/raw_file.h"
#include "tests/support/shared_data.h"

namespace relibra {
namespace {

TEST(RealDumps, DigestsOfFilesAndCopies) {
  const Comm comm = Comm::world();
  const auto data = test::shared_folder() / "data" / "tiny_moe";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "no " << data << " (RELIBRA_SHARED names the folder)";
  const std::pair<const char*, const char*> known[] = {{"tiny_moe_step_a.h5", "c1-c6d1b1494c7d4d3a"},
                                                       {"tiny_moe_step_b.h5", "c1-3bd8a4ef549a974e"}};
  const test::TempFolder folder;
  for (const auto& [name, digest] : known) {
    const auto source = io::open_dump(comm, {(data / name).string()});
    EXPECT_EQ(count_routing(comm, *source, {}).digest, digest);
    EXPECT_EQ(source->dump().sequences.domain.size(), 512u) << "variable-length strings";
    for (bool deflate : {false, true}) {
      io::write_dump(comm, *source, folder / "copy.h5", {.deflate = deflate});
      const auto copy = io::open_dump(comm, {folder / "copy.h5"});
      EXPECT_EQ(count_routing(comm, *copy, {.block_bytes = 100'000}).digest, digest);
      EXPECT_EQ(copy->dump().sequences.domain, source->dump().sequences.domain);
    }
  }
}

}  // namespace
}  // namespace relibra
