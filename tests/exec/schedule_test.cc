// The pure parts of an execution: holders, dealing, send and receive lists, pushes, visits. Numbers by hand.
#include "lib/exec/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/exec/setup.h"
#include "tests/support/execution_case.h"

namespace relibra::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<std::int32_t>;

const MicroBatchId kFirst(0);
const LayerId kLayer(0);

/// P = 2 in one node, 3 experts: homes 0 0 1, C = 2, V = 1.
Plan two_ranks() {
  Plan plan;
  plan.header.num_experts = 3;
  plan.header.top_k = 2;
  plan.header.num_micro_batches = 1;
  plan.header.topology = {.ep_size = 2, .ep_groups = 1, .gpus_per_node = 2};
  plan.header.slots_per_rank = 2;
  plan.header.replica_slots = 1;
  plan.header.physical_slots = 3;
  plan.header.layers = {0};
  plan.placement = Placement::contiguous(1, 3, 2);
  plan.previous = plan.placement;
  plan.slot_expert = initial_slots(1, 3, 2);
  return plan;
}

std::vector<Copy> copy_of_expert_0_on_rank_1() {
  return {{ExpertId(0), RankId(1), 0}};
}

CellRoutes routes(std::vector<std::vector<int>> experts) {
  CellRoutes cell{.top_k = static_cast<int>(experts[0].size())};
  float weight = 0;
  for (const auto& token : experts)
    for (const int e : token) {
      cell.expert.emplace_back(e);
      cell.weight.push_back(weight += 0.125f);
    }
  return cell;
}

std::vector<int> values(const std::vector<RankId>& ranks) {
  std::vector<int> v;
  for (const RankId r : ranks) v.push_back(r.value());
  return v;
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    return error.what();
  }
  return "no error";
}

TEST(Holders, SlotsOfHomesAndCopies) {
  const Plan plan = two_ranks();
  const Holders holders(plan, kFirst, kLayer, GroupId(0), copy_of_expert_0_on_rank_1());
  EXPECT_EQ(holders.home(ExpertId(1)), RankId(0));
  EXPECT_EQ(holders.slot(ExpertId(1), RankId(0)), 1);
  EXPECT_EQ(holders.slot(ExpertId(2), RankId(1)), 0);
  EXPECT_EQ(holders.slot(ExpertId(0), RankId(1)), 2);  // the first copy slot
  EXPECT_EQ(holders.slot(ExpertId(1), RankId(1)), -1);
}

TEST(Holders, RefusesCopiesThatBreakARule) {
  const Plan plan = two_ranks();
  const auto with = [&](std::vector<Copy> copies) {
    return message_of([&] { Holders(plan, kFirst, kLayer, GroupId(0), copies); });
  };
  EXPECT_THAT(with({{ExpertId(0), RankId(0), 0}}), HasSubstr("on the expert's home"));
  EXPECT_THAT(with({{ExpertId(0), RankId(1), 1}}), HasSubstr("outside the plan's replica_slots"));
  EXPECT_THAT(with({{ExpertId(0), RankId(1), 0}, {ExpertId(1), RankId(1), 0}}), HasSubstr("used twice"));
  EXPECT_THAT(with({{ExpertId(1), RankId(1), 0}, {ExpertId(0), RankId(1), 0}}), HasSubstr("out of order"));
  EXPECT_THAT(with({{ExpertId(3), RankId(1), 0}}), HasSubstr("out of range"));
  Plan apart = plan;
  apart.header.topology.gpus_per_node = 1;
  EXPECT_THAT(message_of([&] { Holders(apart, kFirst, kLayer, GroupId(0), copy_of_expert_0_on_rank_1()); }),
              HasSubstr("outside the node"));
  Plan wrong = plan;
  wrong.slot_expert[0] = ExpertId(2);
  EXPECT_THAT(message_of([&] { Holders(wrong, kFirst, kLayer, GroupId(0), {}); }),
              HasSubstr("home is elsewhere"));
}

// Tokens 0, 1, 2 choose expert 0 first; the split keeps 1 at home (rank 0) and sends 2 to rank 1. In row
// order: token 0 stays, tokens 1 and 2 go. Expert 2 has no copy: home. A missing route goes nowhere.
TEST(Deal, SplitEntriesInRowOrder) {
  const Plan plan = two_ranks();
  const Holders holders(plan, kFirst, kLayer, GroupId(0), copy_of_expert_0_on_rank_1());
  const std::vector<SplitEntry> split{{ExpertId(0), RankId(0), RankId(0), 1},
                                      {ExpertId(0), RankId(0), RankId(1), 2}};
  const Dealt dealt = deal(routes({{0, 2}, {2, 0}, {0, -1}}), RankId(0), holders, kFirst, kLayer, split);
  EXPECT_THAT(values(dealt.rank), ElementsAre(0, 1, 1, 1, 1, -1));
  EXPECT_EQ(dealt.slot, (Ints{0, 0, 0, 2, 2, -1}));
}

TEST(Deal, RefusesAChangedSplit) {
  const Plan plan = two_ranks();
  const Holders holders(plan, kFirst, kLayer, GroupId(0), copy_of_expert_0_on_rank_1());
  const auto cell = routes({{0, 2}, {2, 0}, {0, -1}});
  const auto with = [&](std::vector<SplitEntry> split) {
    return message_of([&] { deal(cell, RankId(0), holders, kFirst, kLayer, split); });
  };
  EXPECT_THAT(with({{ExpertId(0), RankId(0), RankId(1), 2}}),
              AllOf(HasSubstr("micro-batch 0, layer 0, split of expert 0 from rank 0"),
                    HasSubstr("expected 3 tokens"), HasSubstr("found 2")));
  EXPECT_THAT(with({{ExpertId(0), RankId(0), RankId(1), 4}}), HasSubstr("found 4"));
  EXPECT_THAT(with({}), HasSubstr("found 0"));
  EXPECT_THAT(with({{ExpertId(0), RankId(0), RankId(1), 3}, {ExpertId(2), RankId(0), RankId(1), 2}}),
              HasSubstr("without a copy"));
  EXPECT_THAT(with({{ExpertId(0), RankId(0), RankId(1), -3}}), HasSubstr("that hold the expert"));
}

// The example of SendList: 2 tokens, K = 2; token 0 has both experts on rank 1, token 1 one on each rank.
TEST(SendList, EachTokenOnceToARank) {
  const Topology topology{.ep_size = 2, .ep_groups = 1, .gpus_per_node = 2};
  const Dealt dealt{{RankId(1), RankId(1), RankId(0), RankId(1)}, {0, 1, 0, 2}};
  const SendList send = build_send_list(dealt, 2, topology, GroupId(0));
  EXPECT_EQ(send.offset, (Ints{0, 1, 3}));
  EXPECT_EQ(send.token, (Ints{1, 0, 1}));
  EXPECT_EQ(send.route_offset, (Ints{0, 1, 3, 4}));
  EXPECT_EQ(send.route, (Ints{2, 0, 1, 3}));
  EXPECT_EQ(send.return_offset, (Ints{0, 1, 3}));
  EXPECT_EQ(send.return_row, (Ints{1, 0, 2}));
  EXPECT_EQ(send.gate_index, (Ints{1, 2, 0, 3}));
  EXPECT_EQ(send.routes_to(EpRankId(1)), 3);

  CellRoutes cell{
      .top_k = 2, .expert = std::vector<ExpertId>(4, ExpertId(0)), .weight = {.1f, .2f, .3f, .4f}};
  const RowList list = row_list(send, dealt, cell, EpRankId(1));
  EXPECT_EQ(list.routes, (Ints{2, 1}));
  EXPECT_EQ(list.slot, (Ints{0, 1, 2}));
  EXPECT_EQ(list.weight, (std::vector<float>{.1f, .2f, .4f}));
}

// Two sources: source 0 sends rows 0 (slots 2, 0) and 1 (slot 0); source 1 sends row 2 (slot 2). By slot:
// slot 0 gets rows 0, 1; slot 2 rows 0, 2.
TEST(ReceiveList, AssignmentsBySlotAndRow) {
  const std::vector<RowList> rows{{{2, 1}, {2, 0, 0}, {1, 2, 3}}, {{1}, {2}, {4}}};
  const ReceiveList receive = build_receive_list(rows, 3);
  EXPECT_EQ(receive.offset, (Ints{0, 2, 3}));
  EXPECT_EQ(receive.route_offset, (Ints{0, 3, 4}));
  EXPECT_THAT(receive.groups, ElementsAre(SlotRows{0, 0, 2}, SlotRows{2, 2, 2}));
  EXPECT_EQ(receive.row, (Ints{0, 1, 0, 2}));
  EXPECT_EQ(receive.weight, (std::vector<float>{2, 3, 1, 4}));
  EXPECT_EQ(receive.sum_offset, (Ints{0, 2, 3, 4}));
  EXPECT_EQ(receive.sum, (Ints{2, 0, 1, 3}));  // row 0's assignments in the sender's order
  EXPECT_THAT(message_of([&] { build_receive_list(rows, 2); }), HasSubstr("slots below 2"));
}

TEST(DealEvenly, RanksAndSlotsDifferByAtMostOne) {
  const Topology topology{.ep_size = 3, .ep_groups = 1, .gpus_per_node = 3};
  const Ints used{2, 3, 0};
  Random random(3);
  std::map<std::pair<int, int>, int> load;
  std::map<int, int> of_rank;
  std::int64_t first = 0;
  for (RankId source : all<RankId>(3)) {
    CellRoutes cell{.top_k = 4};
    for (int i = 0; i < 40 * (1 + source.value()); ++i)
      cell.expert.push_back(random.uniform() < 0.1 ? ExpertId() : ExpertId(i % 7));
    cell.weight.assign(cell.expert.size(), 1.0f);
    const Dealt dealt = deal_evenly(cell, first, topology, GroupId(0), used);
    first += cell.assignments();
    std::map<int, int> by_source;
    for (std::size_t i = 0; i < dealt.rank.size(); ++i) {
      EXPECT_EQ(dealt.rank[i].valid(), cell.expert[i].valid());
      if (!dealt.rank[i].valid()) continue;
      ++load[{dealt.rank[i].value(), dealt.slot[i]}];
      ++of_rank[dealt.rank[i].value()];
      ++by_source[dealt.rank[i].value()];
    }
    EXPECT_LE(by_source[0] - by_source[2], 1) << "every source contributes in proportion";
  }
  const auto [least, most] = std::minmax({of_rank[0], of_rank[1], of_rank[2]});
  EXPECT_LE(most - least, 1);
  for (int rank = 0; rank < 3; ++rank) {
    const int slots = std::max(used[static_cast<std::size_t>(rank)], 1);
    int smallest = 1 << 30, largest = 0;
    for (int slot = 0; slot < slots; ++slot) {
      smallest = std::min(smallest, load[{rank, slot}]);
      largest = std::max(largest, load[{rank, slot}]);
    }
    EXPECT_LE(largest - smallest, 1) << "rank " << rank;
  }
}

/// One group of `ranks` in one node, one expert a rank; expert 0's copies on ranks 1..copies.
Plan one_expert_a_rank(int ranks) {
  Plan plan = two_ranks();
  plan.header.num_experts = ranks;
  plan.header.topology = {.ep_size = ranks, .ep_groups = 1, .gpus_per_node = ranks};
  plan.header.slots_per_rank = 1;
  plan.header.replica_slots = 2;
  plan.placement = Placement::contiguous(1, ranks, ranks);
  plan.slot_expert = initial_slots(1, ranks, ranks);
  return plan;
}

TEST(Pushes, RelaysOfUltraEp) {
  const std::vector<int> expected{0, 0, 0, 0, 2, 2, 2, 2, 2, 3};  // floor(sqrt(n)) from 4 copies on
  for (int n = 0; n < 10; ++n) EXPECT_EQ(relays_of(n), expected[static_cast<std::size_t>(n)]) << n;
  EXPECT_EQ(relays_of(63), 7);
  EXPECT_EQ(relays_of(100), 8);
}

// The example of push_edges: 5 copies, limit 4, two relays: runs {1, 2, 3} and {4, 5}.
TEST(Pushes, RelayedPastTheLimit) {
  const Plan plan = one_expert_a_rank(6);
  std::vector<Copy> copies;
  for (int r = 1; r < 6; ++r) copies.push_back({ExpertId(0), RankId(r), 0});
  const Holders holders(plan, kFirst, kLayer, GroupId(0), copies);
  const auto edge = [](int round, int from, int to) {
    return PushEdge{round, ExpertId(0), RankId(from), RankId(to)};
  };
  EXPECT_THAT(push_edges(holders, 4),
              ElementsAre(edge(0, 0, 1), edge(0, 0, 4), edge(1, 1, 2), edge(1, 1, 3), edge(1, 4, 5)));
  EXPECT_EQ(push_edges(holders, 5).back(), edge(0, 0, 5));  // five messages are within the limit
  EXPECT_EQ(push_edges(holders, 0).back(), edge(0, 0, 5));
  const RankPushes relay = pushes_of(holders, RankId(1), 4);
  ASSERT_EQ(relay.receives[0].size(), 1u);
  ASSERT_EQ(relay.sends[1].size(), 2u);
  EXPECT_EQ(relay.sends[1][0].slot, relay.receives[0][0].slot);  // it sends the copy it got
  EXPECT_EQ(relay.return_sends.size(), 1u);                      // gradients go straight home
  EXPECT_EQ(pushes_of(holders, RankId(0), 4).return_receives.size(), 5u);
}

TEST(Visits, BanksAlternateAndTheSameCellIsPushedOnce) {
  Selection selection;
  selection.micro_batches = {MicroBatchId(0), MicroBatchId(3)};
  selection.layers = {LayerId(0), LayerId(7)};
  const auto visits = build_visits(selection);
  ASSERT_EQ(visits.size(), 8u);
  std::string text;
  for (const Visit& v : visits)
    text += std::to_string(v.micro_batch) + std::to_string(v.layer) + (v.backward ? "b" : "f") +
            std::to_string(v.bank) + (v.push_first ? "+ " : " ");
  EXPECT_EQ(text, "00f0+ 01f1+ 01b1 00b0+ 10f1+ 11f0+ 11b0 10b1+ ");
}

/// Every assignment of a random plan's group reaches one slot of one rank that holds its expert, in numbers
/// that both sides agree on.
TEST(Schedule, EveryAssignmentIsReceivedOnce) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    relibra::testing::CaseOptions options{.topology = {.ep_size = 4, .ep_groups = 1, .gpus_per_node = 2}};
    options.top_k = 3;
    const auto input = relibra::testing::execution_case(seed, options);
    const LayerId l(0);
    const MicroBatchId m(1);
    const auto cell = input.plan.header.cell(m, l);
    const Holders holders(input.plan, m, l, GroupId(0), input.cells.copies_of(cell));
    const auto sources = input.routes(m, l);
    std::vector<std::vector<RowList>> rows(4, std::vector<RowList>(4));  // (destination, source)
    std::int64_t assignments = 0;
    for (RankId s : all<RankId>(4)) {
      const Dealt dealt = deal(sources[s.index()], s, holders, m, l, input.cells.split_of(cell));
      const SendList send = build_send_list(dealt, 3, options.topology, GroupId(0));
      assignments += sources[s.index()].assignments();
      EXPECT_EQ(send.routes(), sources[s.index()].assignments());
      for (std::size_t i = 0; i < dealt.rank.size(); ++i)
        if (dealt.rank[i].valid()) {
          EXPECT_EQ(holders.slot(sources[s.index()].expert[i], dealt.rank[i]), dealt.slot[i]);
        }
      for (EpRankId p : all<EpRankId>(4)) {
        rows[p.index()][s.index()] = row_list(send, dealt, sources[s.index()], p);
        std::set<std::int32_t> tokens(send.token.begin() + send.offset[p.index()],
                                      send.token.begin() + send.offset[p.index() + 1]);
        EXPECT_EQ(static_cast<std::int32_t>(tokens.size()),
                  send.offset[p.index() + 1] - send.offset[p.index()]);
      }
    }
    for (EpRankId p : all<EpRankId>(4)) {
      const ReceiveList receive = build_receive_list(rows[p.index()], 4);
      assignments -= receive.assignments();
      EXPECT_EQ(receive.assignments(),
                input.cells.rank_tokens[static_cast<std::size_t>(cell * 4) + p.index()]);
    }
    EXPECT_EQ(assignments, 0);
  }
}

}  // namespace
}  // namespace relibra::exec
