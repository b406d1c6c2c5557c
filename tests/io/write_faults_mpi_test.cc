// Writing that fails: all ranks leave with the same error and nothing is left in the folder.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "io/dump_file.h"
#include "io/pending_file.h"
#include "io/plan_file.h"
#include "io/slab_file.h"
#include "lib/comm/agree.h"
#include "tests/support/dumps.h"
#include "tests/support/plans.h"

namespace relibra {
namespace {

using test::TempFolder;
using testing::HasSubstr;
using testing::IsEmpty;

/// No file of this process grows beyond `bytes`: a full disk, or a quota.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    before_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit small{bytes, limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, before_);
  }

 private:
  rlimit limit_{};
  void (*before_)(int) = nullptr;
};

template <class Write>
std::string error_of(Write&& write, Fault fault) {
  try {
    write();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), fault);
    EXPECT_TRUE(error.agreed());
    return error.what();
  }
  return "no error";
}

TEST(WriteFaults, FullDiskUnderADump) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  auto source =
      test::random_dump({.rows = {4000, 4000}, .weights = true});  // 48 kB of ids, 192 kB of weights
  for (rlim_t bytes : {100, 40'000, 200'000}) {
    std::string what;
    {
      const SmallDisk disk(bytes);
      what = error_of([&] { io::write_dump(comm, source, folder / "dump.h5", {}); }, Fault::environment);
    }
    EXPECT_THAT(what, HasSubstr("dump.h5: found cannot reserve ")) << bytes;
    EXPECT_THAT(what, HasSubstr("look at free space")) << bytes;
    comm.barrier();
    EXPECT_THAT(folder.files(), IsEmpty()) << bytes;
    comm.barrier();
  }
}

// Room that was reserved and is gone all the same.
TEST(WriteFaults, SlabThatDoesNotFit) {
  const TempFolder folder;
  const std::string path = folder / ("slab" + std::to_string(Comm::world().rank()));
  io::reserve(path, 10, "shown");
  const SmallDisk disk(1000);
  io::SlabFile file(path, "shown");
  const std::vector<std::byte> data(1500);
  try {
    file.write(0, data);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "shown: found cannot write: File too large; look at free space, quota and permissions there");
  }
}

TEST(WriteFaults, LessFreeThanNeeded) {
  const TempFolder folder;
  EXPECT_NO_THROW(io::require_free(folder / "x", 1, "shown"));
  EXPECT_THROW(io::require_free(folder / "x", std::int64_t{1} << 60, "shown"), Error);
}

TEST(WriteFaults, FullDiskUnderAPlan) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  const auto whole = test::sample_plan({.experts = 64, .layers = 8, .micro_batches = 16});
  const auto mine = part_of(whole, share_of(whole.plan.header.num_cells(), comm.rank(), comm.size()));
  for (rlim_t bytes : {1'000, 8'000, 20'000}) {
    std::string what;
    {
      const SmallDisk disk(bytes);
      what =
          error_of([&] { io::write_plan(comm, whole.plan, mine, folder / "plan.h5"); }, Fault::environment);
    }
    EXPECT_THAT(what, HasSubstr("plan.h5")) << bytes;
    comm.barrier();
    EXPECT_THAT(folder.files(), IsEmpty()) << bytes;
    comm.barrier();
  }
}

TEST(WriteFaults, NoFolderOrNoFileName) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  auto source = test::random_dump({});
  const auto writing_to = [&](const std::string& path) {
    return error_of([&] { io::write_dump(comm, source, path, {}); }, Fault::environment);
  };
  EXPECT_THAT(writing_to(folder / "none/dump.h5"), HasSubstr("none/dump.h5: expected a folder "));
  EXPECT_THAT(writing_to(folder.path()), HasSubstr("expected the name of a file, found a folder"));
}

/// Rows that end in an error on the last rank that reads any.
class BrokenSource final : public RoutingSource {
 public:
  explicit BrokenSource(MemorySource rows) : rows_(std::move(rows)) {}
  const RoutingDump& dump() const override { return rows_.dump(); }
  IdType id_type() const override { return rows_.id_type(); }
  void read(std::span<const Range> ranges, std::size_t block_bytes, bool with_weights,
            const BlockFn& take) override {
    rows_.read(ranges, block_bytes, with_weights, take);
    for (const Range& range : ranges)
      if (range.last == dump().sequences.total_rows()) throw_input({.where = "source", .found = "the end"});
  }

 private:
  MemorySource rows_;
};

TEST(WriteFaults, ASourceThatFailsLeavesTheOldFile) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  if (comm.root()) std::ofstream(folder / "dump.h5") << "the old file";
  BrokenSource source(test::random_dump({}));
  for (bool deflate : {false, true}) {
    EXPECT_EQ(error_of([&] { io::write_dump(comm, source, folder / "dump.h5", {.deflate = deflate}); },
                       Fault::input),
              "source: found the end");
    comm.barrier();
    EXPECT_EQ(folder.files(), std::vector<std::string>{"dump.h5"});
    EXPECT_EQ(std::filesystem::file_size(folder / "dump.h5"), 12u);
    comm.barrier();
  }
}

TEST(WriteFaults, PlanCellsThatDoNotCoverThePlan) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  const auto whole = test::sample_plan({});
  const std::int64_t cells = whole.plan.header.num_cells();
  Range mine = share_of(cells, comm.rank(), comm.size());
  if (mine.last == cells) --mine.last;
  EXPECT_THAT(error_of([&] { io::write_plan(comm, whole.plan, part_of(whole, mine), folder / "plan.h5"); },
                       Fault::environment),
              HasSubstr("expected all 12 cells once, in rank order"));
  EXPECT_THAT(folder.files(), IsEmpty());
}

// What a handler of a termination signal does while a file is half written.
TEST(PendingFile, CanBeRemovedWhileItIsWritten) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  io::PendingFile pending(comm, folder / "plan.h5");
  if (comm.root()) {
    std::ofstream(pending.path()) << "half";
    EXPECT_THAT(folder.files(),
                testing::ElementsAre(testing::MatchesRegex("\\.plan\\.h5\\..+\\.[0-9]+\\.partial")));
    io::remove_pending_file_in_signal_handler();
    EXPECT_THAT(folder.files(), IsEmpty());
  }
  comm.barrier();  // the other ranks would remove the file in their destructors
}

// Left by a process that was killed: of this host and no more alive. The one of a live process stays.
TEST(PendingFile, RemovesWhatAKilledProcessLeft) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string prefix = std::string(".plan.h5.") + host + ".";
  const std::string dead = prefix + "999999999.partial", live = prefix + "1.partial";
  if (comm.root()) {
    std::ofstream(folder / dead) << "half";
    std::ofstream(folder / live) << "half";
  }
  const io::PendingFile pending(comm, folder / "plan.h5");
  comm.barrier();
  EXPECT_EQ(folder.files(), std::vector<std::string>{live});
}

}  // namespace
}  // namespace relibra
