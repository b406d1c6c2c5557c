#include "lib/job/recount.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lib/job/recount_shares.h"
#include "tests/support/random_plan.h"

namespace relibra {
namespace {

using testing::RandomCase;
using testing::RandomPlan;
using testing::SlowCell;

template <class T>
std::vector<T> values(std::span<T> span) {
  return {span.begin(), span.end()};
}

/// Compares everything it is shown with the slow recount, and counts what it was shown.
class Comparer final : public RecountVisitor {
 public:
  explicit Comparer(const RandomPlan& random) : random_(random) {}

  void bin(const PlanCells&, const BinRecount& bin) override {
    ++bins;
    const auto& h = random_.plan.plan.header;
    const auto world = static_cast<std::size_t>(h.topology.world()),
               width = static_cast<std::size_t>(h.topology.ep_size);
    const auto experts = static_cast<std::size_t>(h.num_experts);
    for (LayerId l : all<LayerId>(h.num_layers())) {
      const SlowCell slow = random_.slow_cell(bin.micro_batch, l);
      for (std::size_t e = 0; e < experts; ++e)
        EXPECT_EQ(bin.counts[l.index() * experts + e], slow.counts[e * world + bin.source.index()]);
      for (std::size_t p = 0; p < width; ++p)
        EXPECT_EQ(bin.transfer[l.index() * width + p], slow.transfer[bin.source.index() * width + p]);
    }
  }

  void micro_batch(const PlanCells&, MicroBatchRecount& tables) override {
    ++micro_batches;
    const auto& h = random_.plan.plan.header;
    for (LayerId l : all<LayerId>(h.num_layers())) {
      const SlowCell slow = random_.slow_cell(tables.micro_batch(), l);
      for (const auto side : {MicroBatchRecount::before, MicroBatchRecount::after}) {
        EXPECT_EQ(values(tables.rank_tokens(side, l)), slow.rank_tokens[side]);
        EXPECT_EQ(values(tables.sent(side, l)), slow.sent[side]) << "side " << side;
        EXPECT_EQ(values(tables.received(side, l)), slow.received[side]) << "side " << side;
      }
      for (GroupId g : all<GroupId>(h.topology.ep_groups))
        for (ExpertId e : all<ExpertId>(h.num_experts)) {
          std::int64_t sum = 0;
          for (EpRankId p : all<EpRankId>(h.topology.ep_size))
            sum += slow.counts[e.index() * static_cast<std::size_t>(h.topology.world()) +
                               h.topology.rank_of(g, p).index()];
          EXPECT_EQ(tables.expert_tokens(l, g)[e.index()], sum);
        }
    }
  }

  std::int64_t bins = 0, micro_batches = 0;

 private:
  const RandomPlan& random_;
};

void expect_equals_slow_recount(const RandomCase& random) {
  const Comm comm = Comm::world();
  const RandomPlan drawn(random);
  auto source = drawn.source();
  Comparer comparer(drawn);
  const auto totals = recount(comm, source, drawn.plan.view(), comparer, {.block_bytes = 64});
  EXPECT_EQ(totals.digest, drawn.slow_digest());
  EXPECT_EQ(totals.assignments + totals.missing, std::ssize(drawn.ids));
  EXPECT_EQ(totals.invalid, 0);
  std::set<std::pair<int, int>> bins;
  for (std::size_t s = 0; s < drawn.plan.plan.micro_batch.size(); ++s)
    bins.emplace(drawn.plan.plan.micro_batch[s], drawn.plan.plan.source_rank[s]);
  EXPECT_EQ(comm.sum(comparer.bins), std::ssize(bins));
  EXPECT_EQ(comm.sum(comparer.micro_batches), random.micro_batches);
}

TEST(Recount, EqualsASlowRecount) {
  for (std::uint64_t seed : {1, 2, 3}) expect_equals_slow_recount({.seed = seed});
}

TEST(Recount, CopiesInOtherNodesAreDealtInRowOrder) {
  for (std::uint64_t seed : {1, 2, 3, 4})
    expect_equals_slow_recount({.seed = seed, .top_k = 3, .longest = 40, .domain = ReplicaDomain::group});
}

TEST(Recount, SeveralGroupsAndOddShapes) {
  expect_equals_slow_recount(
      {.experts = 7, .top_k = 6, .topology = {.ep_size = 4, .ep_groups = 2, .gpus_per_node = 2}});
  expect_equals_slow_recount(
      {.experts = 5, .top_k = 1, .topology = {.ep_size = 2, .ep_groups = 3, .gpus_per_node = 4}});
  expect_equals_slow_recount(
      {.experts = 9, .topology = {.ep_size = 1, .ep_groups = 2, .gpus_per_node = 1}, .replica_slots = 0});
  expect_equals_slow_recount(
      {.experts = 3, .top_k = 2, .topology = {.ep_size = 4, .ep_groups = 1, .gpus_per_node = 4}});
}

TEST(Recount, MoreNodesThanOneWordOfLanes) {
  expect_equals_slow_recount({.experts = 30, .top_k = 8, .topology = {.ep_size = 10, .gpus_per_node = 1}});
  expect_equals_slow_recount({.experts = 140, .top_k = 8, .topology = {.ep_size = 70, .gpus_per_node = 1}});
  expect_equals_slow_recount({.experts = 140,
                              .top_k = 8,
                              .topology = {.ep_size = 70, .gpus_per_node = 1},
                              .domain = ReplicaDomain::group});
}

TEST(Recount, SequencesLongerThanATallyAndOneMicroBatch) {
  expect_equals_slow_recount({.sequences = 3, .longest = 900, .micro_batches = 1});
}

TEST(Recount, EmptyMicroBatchesAndNoSequences) {
  expect_equals_slow_recount({.sequences = 2, .micro_batches = 7});
  expect_equals_slow_recount({.sequences = 0, .micro_batches = 2});
  expect_equals_slow_recount({.longest = 0});
}

TEST(Recount, AnyTypeOfIds) {
  for (IdType type : {IdType::u8, IdType::i8, IdType::u16, IdType::i16, IdType::i32})
    expect_equals_slow_recount({.missing = 0.2, .type = type});
}

TEST(Recount, IdsBeyondTheExpertsAreCounted) {
  RandomPlan drawn(RandomCase{.missing = 0});
  drawn.ids[0] = 8;
  drawn.ids[3] = 120;
  auto source = drawn.source();
  Comparer comparer(drawn);
  const auto totals = recount(Comm::world(), source, drawn.plan.view(), comparer, {});
  EXPECT_EQ(totals.invalid, 2);
  EXPECT_EQ(totals.missing, 0);
}

TEST(Recount, AnExceptionOfTheVisitorReachesEveryRank) {
  class Thrower final : public RecountVisitor {
    void bin(const PlanCells&, const BinRecount&) override {}
    void micro_batch(const PlanCells&, MicroBatchRecount& recount) override {
      if (recount.micro_batch().value() == 1) throw_input({.where = "here"});
    }
  };
  const RandomPlan drawn(RandomCase{});
  auto source = drawn.source();
  Thrower thrower;
  EXPECT_THROW(recount(Comm::world(), source, drawn.plan.view(), thrower, {}), Error);
}

// Example of the header: four sequences of 10 rows on sources 0 0 1 1, in micro-batches 0 1 0 1.
TEST(ShareBins, ExampleOfTheHeader) {
  Plan plan;
  plan.header.num_micro_batches = 2;
  plan.micro_batch = {0, 1, 0, 1};
  plan.source_rank = {0, 0, 1, 1};
  const Sequences sequences{.row_offset = {0, 10, 20, 30, 40}};
  const auto of = [&](int rank, int size) { return share_bins(plan, sequences, rank, size); };
  ASSERT_EQ(of(0, 2).size(), 1u);
  EXPECT_EQ(of(0, 2)[0].sequences, (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(of(0, 2)[0].bin, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(of(1, 2)[0].sequences, (std::vector<std::int32_t>{1, 3}));
  ASSERT_EQ(of(1, 3).size(), 1u);
  EXPECT_EQ(of(1, 3)[0].sequences, (std::vector<std::int32_t>{1}));
  EXPECT_TRUE(of(1, 3)[0].shared());
  EXPECT_EQ(of(2, 3)[0].first, 1);
}

TEST(ShareBins, EveryBinOnceAndEveryMicroBatchOwnedOnce) {
  const RandomPlan drawn(RandomCase{.sequences = 50, .micro_batches = 9});
  for (int size : {1, 2, 3, 7, 40}) {
    std::set<std::int32_t> seen;
    std::map<int, int> owners;
    for (int rank = 0; rank < size; ++rank)
      for (const auto& share : share_bins(drawn.plan.plan, drawn.dump.sequences, rank, size)) {
        for (std::int32_t s : share.sequences) EXPECT_TRUE(seen.insert(s).second);
        owners[share.micro_batch.value()] += share.first == rank;
      }
    EXPECT_EQ(seen.size(), 50u);
    EXPECT_EQ(owners.size(), 9u);
    for (const auto& [m, count] : owners) EXPECT_EQ(count, 1) << "micro-batch " << m;
  }
}

}  // namespace
}  // namespace relibra
