#include "lib/job/inspect.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "io/dump_file.h"
#include "tests/support/random_plan.h"

namespace relibra {
namespace {

using testing::RandomCase;
using testing::RandomPlan;

/// A path of this test that all ranks agree on; removed at the end.
class SharedPath {
 public:
  explicit SharedPath(const std::string& name) {
    std::string path = std::filesystem::temp_directory_path() / (std::to_string(getpid()) + name);
    Comm::world().broadcast(path);
    path_ = path;
  }
  ~SharedPath() {
    Comm::world().barrier();
    if (Comm::world().root()) std::filesystem::remove(path_);
  }
  std::string text() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(Inspect, WhatIsInADump) {
  const Comm comm = Comm::world();
  RandomPlan random(RandomCase{.sequences = 5, .type = IdType::u8});
  random.dump.sequences.micro_batch = {0, 0, 1, 1, 1};
  random.dump.sequences.source_rank = {0, 1, 2, 3, 1};
  random.dump.sequences.group = {7, 7, 7, 9, 9};
  random.dump.sequences.domain = {"math", "math", "code", "code", "math"};
  random.dump.header.model = "tiny";
  auto source = random.source();
  const SharedPath path("-inspect.h5");
  io::write_dump(comm, source, path.text(), {});
  EXPECT_EQ(kind_of(comm, path.text()), FileKind::dump);

  const DumpFacts shallow = inspect_dump(comm, {path.text()}, false);
  EXPECT_FALSE(shallow.deep);
  EXPECT_EQ(shallow.rows, random.dump.sequences.total_rows());
  EXPECT_EQ(shallow.id_bytes, std::ssize(random.ids));
  EXPECT_EQ(shallow.micro_batches, 2);
  EXPECT_EQ(shallow.source_ranks, 4);
  EXPECT_EQ(shallow.prompt_groups, 2);
  EXPECT_EQ(shallow.domains, (std::vector<std::pair<std::string, std::int64_t>>{{"code", 2}, {"math", 3}}));

  const DumpFacts deep = inspect_dump(comm, {path.text()}, true);
  ASSERT_TRUE(deep.deep);
  EXPECT_EQ(deep.deep->digest, random.slow_digest());
  EXPECT_EQ(deep.deep->routing.assignments + deep.deep->routing.missing, std::ssize(random.ids));
  EXPECT_EQ(deep.deep->busiest.count, 2);
  const auto json = dump_json(deep);
  EXPECT_EQ(json["kind"], "dump");
  EXPECT_EQ(json["model"], "tiny");
  EXPECT_EQ(json["id_type"], "u8");
  EXPECT_EQ(json["deep"]["digest"], random.slow_digest());
  EXPECT_TRUE(dump_json(shallow)["deep"].is_null());
}

TEST(Inspect, ADumpThatFixesNothing) {
  const RandomPlan random(RandomCase{});
  auto source = random.source();
  const SharedPath path("-inspect-free.h5");
  io::write_dump(Comm::world(), source, path.text(), {});
  const auto json = dump_json(inspect_dump(Comm::world(), {path.text()}, false));
  for (const char* field : {"num_micro_batches", "rows_of_micro_batch", "source_ranks", "prompt_groups"})
    EXPECT_TRUE(json[field].is_null()) << field;
}

TEST(Inspect, OtherFilesAreRefusedOnEveryRank) {
  const SharedPath path("-inspect.txt");
  if (Comm::world().root()) std::ofstream(path.text()) << "routing";
  Comm::world().barrier();
  try {
    kind_of(Comm::world(), path.text());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_TRUE(error.agreed());
  }
}

}  // namespace
}  // namespace relibra
