// Every plan file that is refused: one fault each, put into a valid file, and what the message says.
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>

#include "io/plan_file.h"
#include "tests/support/plans.h"

namespace relibra {
namespace {

using test::RawFile;
using test::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

// Opens and reads all cells.
std::string error_of(const std::string& path, io::ListEntries entries = io::ListEntries::checked) {
  try {
    const io::PlanFile file(Comm::world(), path, entries);
    file.read_cells({0, file.plan().header.num_cells()}, true);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_TRUE(error.agreed());
    return error.what();
  }
  return "no error";
}

TEST(PlanRead, TheTinyPlan) {
  const TempFolder folder;
  test::tiny_plan().write(folder / "plan.h5");
  const io::PlanFile file(Comm::world(), folder / "plan.h5");
  const Plan& plan = file.plan();
  EXPECT_EQ(plan.header.step, 7);
  EXPECT_EQ(plan.header.topology, (Topology{2, 1, 2}));
  EXPECT_EQ(plan.header.physical_slots, 3);
  EXPECT_EQ(plan.header.replica_domain, ReplicaDomain::node);
  EXPECT_EQ(plan.placement, Placement::contiguous(1, 4, 2));
  EXPECT_THAT(plan.source_rank, ElementsAre(0, 1));
  const PlanCells second = file.read_cells({1, 2}, true);
  EXPECT_THAT(second.copies_of(1), ElementsAre(Copy{ExpertId(0), RankId(1), 0}));
  EXPECT_THAT(second.split_of(1), ElementsAre(SplitEntry{ExpertId(0), RankId(1), RankId(1), 4}));
  EXPECT_THAT(second.transfer, ElementsAre(0, 0, 2, 6));
  EXPECT_THAT(second.rank_tokens, ElementsAre(2, 6));
  EXPECT_THAT(second.rank_tokens_static, ElementsAre(6, 2));
}

// Nothing to read of a dataset that is not there, unless asked for.
TEST(PlanRead, WithoutTransfers) {
  const TempFolder folder;
  RawFile raw = test::tiny_plan();
  raw.arrays.erase("transfer/assignments");
  raw.write(folder / "plan.h5");
  const io::PlanFile file(Comm::world(), folder / "plan.h5");
  EXPECT_FALSE(file.has_transfers());
  EXPECT_TRUE(file.read_cells({0, 2}, false).transfer.empty());
  EXPECT_THAT(error_of(folder / "plan.h5"), HasSubstr("/transfer/assignments: expected a dataset"));
}

TEST(PlanRead, EntriesAsWritten) {
  const TempFolder folder;
  RawFile raw = test::tiny_plan();
  raw["replicas/slot"].values = {0, 77};
  raw.write(folder / "plan.h5");
  const io::PlanFile file(Comm::world(), folder / "plan.h5", io::ListEntries::as_written);
  EXPECT_EQ(file.read_cells({0, 2}, false).copies[1].slot, 77);
}

struct Refusal {
  const char* name;
  std::function<void(RawFile&)> spoil;
  const char* says;
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.name;
}

class PlanRefused : public testing::TestWithParam<Refusal> {
 protected:
  TempFolder folder_;
};

TEST_P(PlanRefused, NamesFilePlaceAndFault) {
  RawFile raw = test::tiny_plan();
  GetParam().spoil(raw);
  const std::string path = folder_ / "bad.h5";
  raw.write(path);
  EXPECT_THAT(error_of(path), HasSubstr(path + GetParam().says));
}

// A valid tiny_plan has E = 4, L = 1, M = 2, P = W = G = 2, C = 2, V = 1, two sequences, a copy in each cell.
const Refusal kRefusals[] = {
    {"NoFormat", [](RawFile& f) { f.attributes.erase("format"); }, ": expected a plan (attribute format"},
    {"ADump", [](RawFile& f) { f.set("format", "relibra.routing"); }, ": expected a plan (attribute format"},
    {"NewVersion", [](RawFile& f) { f.set("version", 3); }, ":version: expected 1, found 3"},
    {"NoPolicy", [](RawFile& f) { f.attributes.erase("policy"); }, ":policy: expected a string attribute"},
    {"NoDigest", [](RawFile& f) { f.attributes.erase("dump_digest"); }, ":dump_digest: expected a string"},
    {"NoSeed", [](RawFile& f) { f.attributes.erase("seed"); }, ":seed: expected an integer attribute"},
    {"NoSearchMoves", [](RawFile& f) { f.attributes.erase("search_moves"); }, ":search_moves: expected an"},
    {"UnknownDomain", [](RawFile& f) { f.set("replica_domain", "rack"); },
     ":replica_domain: expected \"node\" or \"group\", found \"rack\""},
    {"NoExperts", [](RawFile& f) { f.set("num_experts", 0); }, ":num_experts: expected values from 1"},
    {"NoRanks", [](RawFile& f) { f.set("ep_size", 0); }, ":ep_size: expected values from 1"},
    {"TooManyRanks", [](RawFile& f) { f.set("num_ep_groups", 1 << 24); }, ":num_ep_groups: expected values"},
    {"NodesThatDoNotFit", [](RawFile& f) { f.set("gpus_per_node", 3); },
     ":gpus_per_node: expected a divisor or a multiple of ep_size 2, found 3"},
    {"NegativeSlots", [](RawFile& f) { f.set("replica_slots", -1); },
     ":replica_slots: expected values from 0"},
    {"MorePhysicalSlotsThanThereAre", [](RawFile& f) { f.set("physical_slots", 4); },
     ":physical_slots: expected values from 1 to 3, found 4"},
    {"TopKOverExperts", [](RawFile& f) { f.set("top_k", 5); },
     ":top_k: expected values from 1 to 4, found 5"},

    {"OtherLayers", [](RawFile& f) { f.set("num_layers", 2); },
     ":/layers: expected shape (2), found shape (1)"},
    {"NoPlacement", [](RawFile& f) { f.arrays.erase("placement/expert_rank"); },
     ":/placement/expert_rank: expected a dataset"},
    {"PlacementOfFloats",
     [](RawFile& f) {
       f["placement/expert_rank"] = {.type = H5T_IEEE_F32LE, .shape = {1, 4}, .reals = {0, 0, 1, 1}};
     },
     ":/placement/expert_rank: expected integers, found 32-bit float"},
    {"PlacementOfOtherShape",
     [](RawFile& f) {
       f["placement/expert_rank"].shape = {4, 1};
     },
     ":/placement/expert_rank: expected shape (1, 4), found shape (4, 1)"},
    {"HomeOutsideTheGroup", [](RawFile& f) { f["placement/expert_rank"].values[2] = 2; },
     ":/placement/expert_rank: expected values from 0 to 1, found 2 at element 2"},
    {"PreviousHomeOutsideTheGroup", [](RawFile& f) { f["placement/previous_rank"].values[0] = -1; },
     ":/placement/previous_rank: expected values from 0 to 1, found -1 at element 0"},
    {"SlotOfNoExpert", [](RawFile& f) { f["placement/slot_expert"].values[3] = 4; },
     ":/placement/slot_expert: expected values from -1 to 3, found 4 at element 3"},
    {"MovesOfOtherShape",
     [](RawFile& f) {
       f["placement/moves"].shape = {0, 3};
     },
     ":/placement/moves: expected shape (any, 4)"},
    {"MicroBatchOutside", [](RawFile& f) { f["sequences/micro_batch"].values[1] = 2; },
     ":/sequences/micro_batch: expected values from 0 to 1, found 2 at element 1"},
    {"SourceOutside", [](RawFile& f) { f["sequences/source_rank"].values[0] = 2; },
     ":/sequences/source_rank: expected values from 0 to 1, found 2 at element 0"},
    {"SourcesForOtherSequences",
     [](RawFile& f) {
       f["sequences/source_rank"] = {.shape = {3}, .values = {0, 0, 0}};
     },
     ":/sequences/source_rank: expected shape (2), found shape (3)"},

    {"CopyOffsetsOfOtherCells", [](RawFile& f) { f.set("num_micro_batches", 3); },
     ":/replicas/offset: expected shape (4), found shape (3)"},
    {"CopyOffsetStartsLate",
     [](RawFile& f) {
       f["replicas/offset"].values = {1, 1, 2};
     },
     ":/replicas/offset: expected offsets that start at 0, found 1"},
    {"CopyOffsetFalls",
     [](RawFile& f) {
       f["replicas/offset"].values = {0, 3, 2};
     },
     ":/replicas/offset: expected offsets that never fall, found 2 after 3 at cell 1"},
    {"CopyOffsetEndsEarly",
     [](RawFile& f) {
       f["replicas/offset"].values = {0, 1, 1};
     },
     ":/replicas/expert: expected shape (1), found shape (2)"},
    {"CopyListsOfOtherLength",
     [](RawFile& f) {
       f["replicas/slot"] = {.shape = {3}, .values = {0, 0, 0}};
     },
     ":/replicas/slot: expected shape (2), found shape (3)"},
    {"NoCopyRanks", [](RawFile& f) { f.arrays.erase("replicas/rank"); },
     ":/replicas/rank: expected a dataset"},
    {"CopyOfNoExpert", [](RawFile& f) { f["replicas/expert"].values[1] = 4; },
     ":/replicas/expert: expected values from 0 to 3, found 4 at entry 1"},
    {"CopyOnNoRank", [](RawFile& f) { f["replicas/rank"].values[0] = -1; },
     ":/replicas/rank: expected values from 0 to 1, found -1 at entry 0"},
    {"CopyInNoSlot", [](RawFile& f) { f["replicas/slot"].values[0] = 1; },
     ":/replicas/slot: expected values from 0 to 0, found 1 at entry 0"},
    {"CopyOfAWideExpert",
     [](RawFile& f) {
       f["replicas/expert"] = {.type = H5T_STD_I64LE, .shape = {2}, .values = {0, std::int64_t{1} << 32}};
     },
     ":/replicas/expert: expected a value that fits, found 4294967296"},
    {"SplitOffsetEndsLate",
     [](RawFile& f) {
       f["split/offset"].values = {0, 2, 4};
     },
     ":/split/expert: expected shape (4), found shape (3)"},
    {"SplitOfFloats",
     [](RawFile& f) {
       f["split/tokens"] = {.type = H5T_IEEE_F32LE, .shape = {3}, .reals = {3, 2, 4}};
     },
     ":/split/tokens: expected integers, found 32-bit float"},
    {"SplitOfNoTokens", [](RawFile& f) { f["split/tokens"].values[2] = 0; },
     ":/split/tokens: expected values from 1 to 2147483647, found 0 at entry 2"},
    {"SplitFromNoRank", [](RawFile& f) { f["split/source"].values[0] = 2; },
     ":/split/source: expected values from 0 to 1, found 2 at entry 0"},
    {"TransfersOfOtherShape",
     [](RawFile& f) {
       f["transfer/assignments"].shape = {2, 2, 2, 1};
     },
     ":/transfer/assignments: expected shape (2, 1, 2, 2), found shape (2, 2, 2, 1)"},
    {"NoMetrics", [](RawFile& f) { f.arrays.erase("metrics/rank_tokens"); },
     ":/metrics/rank_tokens: expected a dataset"},
    {"MetricsOfOtherShape",
     [](RawFile& f) {
       f["metrics/rank_tokens_static"].shape = {1, 2, 2};
     },
     ":/metrics/rank_tokens_static: expected shape (2, 1, 2), found shape (1, 2, 2)"},
};

INSTANTIATE_TEST_SUITE_P(Faults, PlanRefused, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return info.param.name; });

TEST(NotAPlan, CutOffFile) {
  const TempFolder folder;
  const std::string path = folder / "cut.h5";
  test::tiny_plan().write(path);
  const auto whole = std::filesystem::file_size(path);
  for (const auto size : {whole - 1, whole / 2, std::uintmax_t{100}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(path, size);
    EXPECT_THAT(error_of(path), HasSubstr("cut.h5")) << size;
  }
}

// A file that vanished after it was opened, as when a later step overwrites a folder.
TEST(NotAPlan, FileThatVanished) {
  const TempFolder folder;
  test::tiny_plan().write(folder / "plan.h5");
  const io::PlanFile file(Comm::world(), folder / "plan.h5");
  std::filesystem::remove(folder / "plan.h5");
  EXPECT_THROW(file.read_cells({0, 2}, false), Error);
}

}  // namespace
}  // namespace relibra
