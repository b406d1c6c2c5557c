// Faults put into a step, each caught by --verify. The step is data: a test breaks the schedule after it was
// built and lets the engine run it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "lib/base/error.h"
#include "tests/support/execution.h"

namespace relibra::exec {
namespace {

using relibra::testing::CaseOptions;
using relibra::testing::Execution;
using relibra::testing::execution_case;
using relibra::testing::ExecutionCase;

const ModelShape kShape{.hidden = 24, .intermediate = 20};

/// Breaks this rank's schedule; returns whether there was something to break here.
using Break = std::function<bool(RankSchedule&, const ExecutionCase&)>;

void expect_caught(const CaseOptions& options, const std::string& kind, const Break& break_it) {
  const Comm comm = Comm::world();
  const ExecutionCase input = execution_case(21, options);
  Execution execution(comm, input, kShape);
  ASSERT_TRUE(execution.verify().passed());
  const bool broken = break_it(execution.schedule, input);
  ASSERT_EQ(comm.max(broken ? 1 : 0), 1) << "nothing to break: choose another seed";
  const VerifyReport report = execution.verify();
  EXPECT_FALSE(report.passed());
  const auto of_kind = std::find_if(report.kinds.begin(), report.kinds.end(),
                                    [&](const VerifyKind& k) { return k.what == kind; });
  ASSERT_NE(of_kind, report.kinds.end());
  EXPECT_GT(of_kind->error, 10 * report.tolerance) << kind << ": " << of_kind->worst;
}

/// One group over all ranks in one node, with many copies.
CaseOptions one_group() {
  CaseOptions options{.topology = {Comm::world().size(), 1, Comm::world().size()}};
  options.copy_share = 1;
  options.sequences = 6 * Comm::world().size();
  options.micro_batches = 3;
  return options;
}

bool alone() {
  return Comm::world().size() == 1;  // one rank holds no copy and sends to itself alone
}

/// A copy that computes tokens: the first of the plan with a split to it. The same on every rank.
struct UsedCopy {
  std::size_t cell = 0;
  Copy copy;
  RankId home;
};
UsedCopy used_copy(const ExecutionCase& input) {
  const Plan& plan = input.plan;
  for (std::int64_t cell = 0; cell < plan.header.num_cells(); ++cell)
    for (const Copy& copy : input.cells.copies_of(cell))
      for (const SplitEntry& entry : input.cells.split_of(cell))
        if (entry.expert == copy.expert && entry.rank == copy.rank) {
          const LayerId l(cell % plan.header.num_layers());
          const Topology& t = plan.header.topology;
          return {static_cast<std::size_t>(cell), copy,
                  t.rank_of(t.group_of(copy.rank), plan.placement.home(l, copy.expert))};
        }
  throw Error::with_message(Fault::input, "no copy of the case computes anything");
}

TEST(Faults, StaleWeightBank) {
  if (alone()) GTEST_SKIP() << "needs copies";
  // The weights of every cell after the first two pushes are not sent: copies compute with those of an older
  // cell.
  expect_caught(one_group(), "outputs", [](RankSchedule& schedule, const ExecutionCase&) {
    int pushes = 0;
    bool changed = false;
    for (Visit& visit : schedule.visits)
      if (visit.push_first && ++pushes > 2) {
        visit.push_first = false;
        changed = true;
      }
    return changed;
  });
}

TEST(Faults, WrongWeightBank) {
  if (alone()) GTEST_SKIP() << "needs copies";
  // Weights go into one bank, the experts read the other: a visit's bank is changed after its push was
  // planned, so the backward visit, which reuses the forward's push, reads what the cell before left.
  expect_caught(one_group(), "input gradients", [](RankSchedule& schedule, const ExecutionCase&) {
    bool changed = false;
    for (Visit& visit : schedule.visits)
      if (visit.backward && !visit.push_first) {
        visit.bank = 1 - visit.bank;
        changed = true;
      }
    return changed;
  });
}

TEST(Faults, GradientOfACopyLost) {
  if (alone()) GTEST_SKIP() << "needs copies";
  expect_caught(one_group(), "weight gradients", [](RankSchedule& schedule, const ExecutionCase& input) {
    const UsedCopy used = used_copy(input);
    RankPushes& pushes = schedule.cells[used.cell].pushes;
    if (schedule.rank == used.copy.rank)
      std::erase_if(pushes.return_sends,
                    [&](const auto& send) { return send.slot == schedule.home_slots + used.copy.slot; });
    if (schedule.rank != used.home) return false;
    const Holders holders(input.plan, schedule.cells[used.cell].micro_batch, schedule.cells[used.cell].layer,
                          GroupId(0), input.cells.copies_of(static_cast<std::int64_t>(used.cell)));
    const auto slot = holders.slot(used.copy.expert, used.home);
    return std::erase_if(pushes.return_receives, [&](const auto& receive) {
             return receive.peer == used.copy.rank && receive.slot == slot;
           }) == 1;
  });
}

TEST(Faults, GradientOfACopyAddedTwice) {
  if (alone()) GTEST_SKIP() << "needs copies";
  expect_caught(one_group(), "weight gradients", [](RankSchedule& schedule, const ExecutionCase& input) {
    const UsedCopy used = used_copy(input);
    RankPushes& pushes = schedule.cells[used.cell].pushes;
    const auto twice = [](std::vector<RankPushes::Return>& list, auto&& is_it) {
      const auto found = std::find_if(list.begin(), list.end(), is_it);
      if (found == list.end()) return false;
      list.insert(found, *found);
      return true;
    };
    if (schedule.rank == used.copy.rank)
      twice(pushes.return_sends,
            [&](const auto& send) { return send.slot == schedule.home_slots + used.copy.slot; });
    if (schedule.rank != used.home) return false;
    const Holders holders(input.plan, schedule.cells[used.cell].micro_batch, schedule.cells[used.cell].layer,
                          GroupId(0), input.cells.copies_of(static_cast<std::int64_t>(used.cell)));
    const auto slot = holders.slot(used.copy.expert, used.home);
    return twice(pushes.return_receives,
                 [&](const auto& receive) { return receive.peer == used.copy.rank && receive.slot == slot; });
  });
}

TEST(Faults, GradientAddedToAnotherExpert) {
  if (alone()) GTEST_SKIP() << "needs copies";
  expect_caught(one_group(), "weight gradients", [](RankSchedule& schedule, const ExecutionCase& input) {
    const UsedCopy used = used_copy(input);
    if (schedule.rank != used.home || schedule.home_slots < 2) return false;
    auto& receives = schedule.cells[used.cell].pushes.return_receives;
    const auto found = std::find_if(receives.begin(), receives.end(),
                                    [&](const auto& receive) { return receive.peer == used.copy.rank; });
    found->slot = (found->slot + 1) % schedule.home_slots;
    return true;
  });
}

/// The first cell in which this rank has at least two rows, tokens or assignments to confuse.
template <class F>
bool in_first_cell(RankSchedule& schedule, F&& confuse) {
  for (CellSchedule& cell : schedule.cells)
    if (confuse(cell)) return true;
  return false;
}

TEST(Faults, RowsSentInEachOthersPlace) {
  expect_caught(one_group(), "outputs", [](RankSchedule& schedule, const ExecutionCase&) {
    return in_first_cell(schedule, [](CellSchedule& cell) {
      auto& token = cell.send.token;
      if (token.size() < 2 || token.front() == token[1]) return false;
      std::swap(token.front(), token[1]);
      return true;
    });
  });
}

TEST(Faults, RowGivenToTheWrongExpert) {
  expect_caught(one_group(), "weight gradients", [](RankSchedule& schedule, const ExecutionCase&) {
    return in_first_cell(schedule, [](CellSchedule& cell) {
      auto& row = cell.receive.row;
      for (std::size_t i = 1; i < row.size(); ++i)
        if (row[i] != row[0]) {
          std::swap(row[0], row[i]);
          return true;
        }
      return false;
    });
  });
}

TEST(Faults, ResultAddedToTheWrongToken) {
  expect_caught(one_group(), "outputs", [](RankSchedule& schedule, const ExecutionCase&) {
    return in_first_cell(schedule, [](CellSchedule& cell) {
      auto& row = cell.send.return_row;
      if (cell.send.tokens() < 2 || row.size() < 2) return false;
      std::swap(row.front(), row.back());
      return true;
    });
  });
}

TEST(Faults, AssignmentLeftOutOfTheSum) {
  expect_caught(one_group(), "outputs", [](RankSchedule& schedule, const ExecutionCase&) {
    return in_first_cell(schedule, [](CellSchedule& cell) {
      if (cell.receive.rows() == 0) return false;
      auto& sum = cell.receive.sum;
      cell.receive.weight[static_cast<std::size_t>(sum[0])] = 0;
      return true;
    });
  });
}

TEST(Faults, GateGradientsMixedUp) {
  expect_caught(one_group(), "gate-weight gradients", [](RankSchedule& schedule, const ExecutionCase&) {
    return in_first_cell(schedule, [](CellSchedule& cell) {
      auto& index = cell.send.gate_index;
      if (index.size() < 2 || index.front() == index.back()) return false;
      std::swap(index.front(), index.back());
      return true;
    });
  });
}

TEST(Faults, NoSumOverTheHomes) {
  const int world = Comm::world().size();
  if (world % 2 != 0) GTEST_SKIP() << "needs two EP groups";
  CaseOptions options = one_group();
  options.topology = {world / 2, 2, 1};
  expect_caught(options, "weight gradients", [](RankSchedule& schedule, const ExecutionCase&) {
    return std::exchange(schedule.sum_homes, false);
  });
}

TEST(Faults, AChangedSplitIsRefusedBeforeAnythingIsSent) {
  if (alone()) GTEST_SKIP() << "needs copies";
  const Comm comm = Comm::world();
  const auto refused = [&](auto&& change, const std::string& text) {
    ExecutionCase input = execution_case(21, one_group());
    change(input);
    try {
      Execution execution(comm, input, kShape);
      FAIL() << "executed";
    } catch (const Error& error) {
      EXPECT_TRUE(error.agreed());
      EXPECT_EQ(error.fault(), Fault::input);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  refused([](ExecutionCase& input) { ++input.cells.split.front().tokens; }, "as the dump has");
  // The same sums, but another rank: the loads differ from those that the plan states.
  refused(
      [](ExecutionCase& input) {
        auto& split = input.cells.split;
        const auto pair = std::adjacent_find(split.begin(), split.end(), [](const auto& a, const auto& b) {
          return a.expert == b.expert && a.source == b.source && a.tokens > 1;
        });
        ASSERT_NE(pair, split.end());
        --pair->tokens;
        ++std::next(pair)->tokens;
      },
      "metrics/rank_tokens");
  refused([](ExecutionCase& input) { input.ids[0] = static_cast<std::int16_t>((input.ids[0] + 1) % 8); },
          "expected");
}

}  // namespace
}  // namespace relibra::exec
