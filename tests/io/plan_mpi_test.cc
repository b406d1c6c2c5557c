// Plan files written and read by one or several ranks.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "io/plan_file.h"
#include "lib/comm/comm.h"
#include "tests/support/plans.h"

namespace relibra {
namespace {

using test::PlanSize;
using test::TempFolder;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_same(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.header.step, b.header.step);
  EXPECT_EQ(a.header.policy, b.header.policy);
  EXPECT_EQ(a.header.seed, b.header.seed);
  EXPECT_EQ(a.header.tool, b.header.tool);
  EXPECT_EQ(a.header.num_experts, b.header.num_experts);
  EXPECT_EQ(a.header.top_k, b.header.top_k);
  EXPECT_EQ(a.header.num_micro_batches, b.header.num_micro_batches);
  EXPECT_EQ(a.header.topology, b.header.topology);
  EXPECT_EQ(a.header.slots_per_rank, b.header.slots_per_rank);
  EXPECT_EQ(a.header.replica_slots, b.header.replica_slots);
  EXPECT_EQ(a.header.physical_slots, b.header.physical_slots);
  EXPECT_EQ(a.header.replica_domain, b.header.replica_domain);
  EXPECT_EQ(a.header.dump_digest, b.header.dump_digest);
  EXPECT_EQ(a.header.search_moves, b.header.search_moves);
  EXPECT_EQ(a.header.layers, b.header.layers);
  EXPECT_EQ(a.placement, b.placement);
  EXPECT_EQ(a.previous, b.previous);
  EXPECT_EQ(a.slot_expert, b.slot_expert);
  EXPECT_EQ(a.micro_batch, b.micro_batch);
  EXPECT_EQ(a.source_rank, b.source_rank);
}

void expect_same(const PlanCells& a, const PlanCells& b) {
  EXPECT_EQ(a.cells, b.cells);
  EXPECT_EQ(a.copy_offset, b.copy_offset);
  EXPECT_EQ(a.copies, b.copies);
  EXPECT_EQ(a.split_offset, b.split_offset);
  EXPECT_EQ(a.split, b.split);
  EXPECT_EQ(a.transfer, b.transfer);
  EXPECT_EQ(a.rank_tokens, b.rank_tokens);
  EXPECT_EQ(a.rank_tokens_static, b.rank_tokens_static);
}

// Sizes at which ranks have parts of micro-batches, nothing, or all; lists that are empty; no sequences.
const std::vector<PlanSize> kSizes = {
    {},
    {.layers = 1, .micro_batches = 1, .sequences = 1, .transfers = false},
    {.experts = 7, .layers = 5, .micro_batches = 3, .topology = {4, 1, 2}, .seed = 4},
    {.layers = 2, .micro_batches = 0, .sequences = 0}};

TEST(PlanFile, RoundTripAndEveryRankReadsWhatItAsksFor) {
  const Comm comm = Comm::world();
  const TempFolder folder;
  for (const PlanSize& size : kSizes) {
    const auto whole = test::sample_plan(size);
    const std::int64_t cells = whole.plan.header.num_cells();
    const Range mine = share_of(cells, comm.rank(), comm.size());
    io::write_plan(comm, whole.plan, part_of(whole, mine), folder / "plan.h5");
    const io::PlanFile file(comm, folder / "plan.h5");
    expect_same(file.plan(), whole.plan);
    EXPECT_EQ(std::vector<Move>(file.moves().begin(), file.moves().end()),
              moves_between(whole.plan.previous, whole.plan.placement));
    EXPECT_EQ(file.has_transfers(), size.transfers);
    expect_same(file.read_cells(mine, size.transfers), part_of(whole, mine));
    expect_same(file.read_cells({0, cells}, size.transfers), whole.cells);
    const Range odd = comm.rank() % 2 == 0 ? Range{cells, cells} : Range{cells / 3, cells / 2};
    expect_same(file.read_cells(odd, size.transfers), part_of(whole, odd));
  }
}

// Leaves this rank's own byte in freed memory of many sizes, so that a file with bytes that nobody set
// differs.
void dirty_heap() {
  std::vector<std::unique_ptr<char[]>> blocks;
  for (std::size_t bytes = 16; bytes < 100'000; bytes += bytes / 4)
    for (int i = 0; i < 200; ++i) {
      blocks.emplace_back(new char[bytes]);
      std::memset(blocks.back().get(), 'A' + Comm::world().rank(), bytes);
    }
}

TEST(PlanFile, SameBytesAsWrittenByOneRank) {
  const Comm comm = Comm::world(), self(MPI_COMM_SELF);
  const TempFolder folder;
  for (const PlanSize& size : kSizes) {
    dirty_heap();
    const auto whole = test::sample_plan(size);
    io::write_plan(comm, whole.plan,
                   part_of(whole, share_of(whole.plan.header.num_cells(), comm.rank(), comm.size())),
                   folder / "all.h5");
    if (comm.root()) {
      io::write_plan(self, whole.plan, whole.cells, folder / "one.h5");
      EXPECT_TRUE(bytes_of(folder / "all.h5") == bytes_of(folder / "one.h5"));
      EXPECT_EQ(folder.files(), (std::vector<std::string>{"all.h5", "one.h5"}));
    }
    comm.barrier();
  }
}

}  // namespace
}  // namespace relibra
