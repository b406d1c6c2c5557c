#include "lib/job/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/hand_plan.h"
#include "tests/support/random_plan.h"

namespace relibra {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::MemoryPlan;
using testing::RandomCase;
using testing::RandomPlan;

/// Two nodes of a group of four; two groups, so that splits may cross them.
RandomCase wide_case() {
  return {.seed = 11,
          .sequences = 30,
          .longest = 30,
          .micro_batches = 2,
          .topology = {.ep_size = 4, .ep_groups = 2, .gpus_per_node = 2}};
}

CheckReport check(const RandomPlan& random, const MemoryPlan& plan, const CheckOptions& options = {}) {
  auto source = random.source();
  return check_plan(Comm::world(), source, plan.view(), options);
}

void expect_valid(const CheckReport& report) {
  EXPECT_TRUE(report.valid());
  for (const auto& rule : report.broken) ADD_FAILURE() << rule;
}

TEST(Check, ValidPlansPass) {
  for (std::uint64_t seed : {1, 2, 3}) {
    const RandomPlan random({.seed = seed});
    expect_valid(check(random, random.plan));
    const RandomPlan anywhere({.seed = seed, .domain = ReplicaDomain::group});
    expect_valid(check(anywhere, anywhere.plan));
    const RandomPlan odd(
        {.seed = seed, .experts = 7, .topology = {.ep_size = 2, .ep_groups = 2, .gpus_per_node = 4}});
    expect_valid(check(odd, odd.plan));
  }
  const RandomPlan wide(wide_case());
  expect_valid(check(wide, wide.plan, {.previous = {PreviousKnown::Kind::none}}));
}

// Counts of sequence 0 are 4 2 1 1, of sequence 1 they are 1 0 2 1.
TEST(Check, PlanWorkedByHand) {
  testing::HandPlan hand;
  const auto term = [](std::uint64_t i, std::uint64_t c) { return mix64(mix64(i + 1) ^ c); };
  char digest[20];
  std::snprintf(digest, sizeof digest, "c1-%016llx",
                static_cast<unsigned long long>(term(0, 4) + term(1, 2) + term(2, 1) + term(3, 1) +
                                                term(4, 1) + term(6, 2) + term(7, 1)));
  hand.memory.plan.header.dump_digest = digest;
  expect_valid(
      check_plan(Comm::world(), hand.source, hand.memory.view(), {.previous = {PreviousKnown::Kind::none}}));
}

/// A single change to a valid plan that breaks a rule, and words of the report.
struct Mutation {
  const char* name;
  const char* says;
  void (*change)(MemoryPlan&);
};

/// First cell with a copy, in terms of the lists: index of the copy and of a split entry of its expert.
std::size_t split_of_copy(const MemoryPlan& p) {
  for (std::size_t i = 0; i < p.cells.split.size(); ++i)
    if (p.cells.split[i].expert == p.cells.copies[0].expert) return i;
  return 0;
}

EpRankId other_rank(EpRankId p) {
  return EpRankId((p.value() + 1) % 4);
}

const Mutation kMutations[] = {
    {"step", "step 6", [](MemoryPlan& p) { ++p.plan.header.step; }},
    {"top_k", "top_k", [](MemoryPlan& p) { ++p.plan.header.top_k; }},
    {"num_experts", "num_experts", [](MemoryPlan& p) { ++p.plan.header.num_experts; }},
    {"layers", "layers are not", [](MemoryPlan& p) { ++p.plan.header.layers[1]; }},
    {"num_layers", "num_layers", [](MemoryPlan& p) { p.plan.header.layers.pop_back(); }},
    {"gpus_per_node", "neither divides", [](MemoryPlan& p) { p.plan.header.topology.gpus_per_node = 3; }},
    {"no gpus_per_node", "less than 1", [](MemoryPlan& p) { p.plan.header.topology.gpus_per_node = 0; }},
    {"narrower nodes", "leaves the node", [](MemoryPlan& p) { p.plan.header.topology.gpus_per_node = 1; }},
    {"physical_slots too many", "is more than slots_per_rank",
     [](MemoryPlan& p) { ++p.plan.header.physical_slots; }},
    {"physical_slots too few", "physical_slots is 2",
     [](MemoryPlan& p) { p.plan.header.physical_slots = 2; }},
    {"replica_slots", "out of range", [](MemoryPlan& p) { p.plan.header.replica_slots = 1; }},
    {"no transfers", "no transfer", [](MemoryPlan& p) { p.cells.transfer.clear(); }},
    {"dump_digest", "dump_digest", [](MemoryPlan& p) { p.plan.header.dump_digest.back() ^= 1; }},
    {"micro_batch out of range", "micro_batch is outside", [](MemoryPlan& p) { p.plan.micro_batch[3] = 2; }},
    {"micro_batch moved", "recount gives", [](MemoryPlan& p) { p.plan.micro_batch[3] ^= 1; }},
    {"source_rank out of range", "source_rank is outside", [](MemoryPlan& p) { p.plan.source_rank[0] = 8; }},
    {"source_rank negative", "source_rank is outside", [](MemoryPlan& p) { p.plan.source_rank[0] = -1; }},
    {"source_rank moved", "recount gives",
     [](MemoryPlan& p) { p.plan.source_rank[0] = (p.plan.source_rank[0] + 1) % 8; }},
    {"sequence missing", "number of sequences", [](MemoryPlan& p) { p.plan.micro_batch.pop_back(); }},
    {"home out of range", "expert_rank is outside",
     [](MemoryPlan& p) { p.plan.placement.home(LayerId(0), ExpertId(2)) = EpRankId(4); }},
    {"home moved", "placement/moves",
     [](MemoryPlan& p) {
       auto& home = p.plan.placement.home(LayerId(1), ExpertId(2));
       home = other_rank(home);
     }},
    {"previous out of range", "previous_rank is outside",
     [](MemoryPlan& p) { p.plan.previous.home(LayerId(0), ExpertId(0)) = EpRankId(-2); }},
    {"previous moved", "placement/moves",
     [](MemoryPlan& p) {
       auto& home = p.plan.previous.home(LayerId(1), ExpertId(2));
       home = other_rank(home);
     }},
    {"slot empty", "is in 0 slots", [](MemoryPlan& p) { p.plan.slot_expert[0] = ExpertId(-1); }},
    {"slot out of range", "out of range", [](MemoryPlan& p) { p.plan.slot_expert[0] = ExpertId(8); }},
    {"slot twice", "is in 2 slots", [](MemoryPlan& p) { p.plan.slot_expert[0] = p.plan.slot_expert[1]; }},
    {"slots of two ranks swapped", "whose expert_rank",
     [](MemoryPlan& p) { std::swap(p.plan.slot_expert[0], p.plan.slot_expert[2]); }},
    {"move dropped", "placement/moves", [](MemoryPlan& p) { p.moves.pop_back(); }},
    {"move added", "rows too many", [](MemoryPlan& p) { p.moves.push_back(p.moves.back()); }},
    {"move changed", "placement/moves", [](MemoryPlan& p) { p.moves[1].to = other_rank(p.moves[1].to); }},
    {"moves not sorted", "placement/moves", [](MemoryPlan& p) { std::swap(p.moves[0], p.moves[1]); }},
    {"copy of no expert", "out of range", [](MemoryPlan& p) { p.cells.copies[0].expert = ExpertId(8); }},
    {"copy on no rank", "out of range", [](MemoryPlan& p) { p.cells.copies[0].rank = RankId(-1); }},
    {"copy of another expert", "and no split",
     [](MemoryPlan& p) { p.cells.copies[0].expert = ExpertId((p.cells.copies[0].expert.value() + 1) % 8); }},
    {"copy on its home", "onto its home",
     [](MemoryPlan& p) {
       auto& copy = p.cells.copies[0];
       const auto& t = p.plan.header.topology;
       copy.rank = t.rank_of(t.group_of(copy.rank), p.plan.placement.home(LayerId(0), copy.expert));
     }},
    {"copy in another node", "leaves the node",
     [](MemoryPlan& p) { p.cells.copies[0].rank = RankId(p.cells.copies[0].rank.value() ^ 2); }},
    {"copy twice", "has a pair twice", [](MemoryPlan& p) { p.cells.copies[1] = p.cells.copies[0]; }},
    {"copies not sorted", "/replicas is not sorted",
     [](MemoryPlan& p) { std::swap(p.cells.copies[0], p.cells.copies[1]); }},
    {"copy dropped", "has no copy in that EP group",
     [](MemoryPlan& p) {
       p.cells.copies.erase(p.cells.copies.begin());
       for (std::size_t i = 1; i < p.cells.copy_offset.size(); ++i) --p.cells.copy_offset[i];
     }},
    {"copy of the next cell", "has no copy in that EP group",
     [](MemoryPlan& p) { ++p.cells.copy_offset[1]; }},
    {"slot of a copy out of range", "is in slot 2, out of range",
     [](MemoryPlan& p) { p.cells.copies[0].slot = 2; }},
    {"slot of a copy negative", "is in slot -1, out of range",
     [](MemoryPlan& p) { p.cells.copies[0].slot = -1; }},
    {"slot used twice", "is used twice",
     [](MemoryPlan& p) {
       for (auto& copy : p.cells.copies)
         if (copy.slot == 1) {
           copy.slot = 0;
           return;
         }
     }},
    {"split of no expert", "out of range", [](MemoryPlan& p) { p.cells.split[0].expert = ExpertId(-1); }},
    {"split from no source", "out of range", [](MemoryPlan& p) { p.cells.split[0].source = RankId(8); }},
    {"split to no rank", "out of range", [](MemoryPlan& p) { p.cells.split[0].rank = RankId(8); }},
    {"split of nothing", "has no tokens", [](MemoryPlan& p) { p.cells.split[0].tokens = 0; }},
    {"split negative", "has no tokens", [](MemoryPlan& p) { p.cells.split[0].tokens = -1; }},
    {"split one more", "sums to", [](MemoryPlan& p) { ++p.cells.split[0].tokens; }},
    {"split one less", "recount gives",
     [](MemoryPlan& p) {
       for (auto& x : p.cells.split)
         if (x.tokens > 1) {
           --x.tokens;
           return;
         }
     }},
    {"split crosses groups", "crosses EP groups",
     [](MemoryPlan& p) { p.cells.split[0].rank = RankId(p.cells.split[0].rank.value() ^ 4); }},
    {"split from another source", "sums to",
     [](MemoryPlan& p) {
       p.cells.split[split_of_copy(p)].source = RankId(p.cells.split[split_of_copy(p)].source.value() ^ 1);
     }},
    {"split to another rank", "does not hold it",
     [](MemoryPlan& p) { p.cells.split[0].rank = RankId(p.cells.split[0].rank.value() ^ 2); }},
    {"split entry twice", "has an entry twice", [](MemoryPlan& p) { p.cells.split[1] = p.cells.split[0]; }},
    {"split not sorted", "/split is not sorted",
     [](MemoryPlan& p) { std::swap(p.cells.split[0], p.cells.split[1]); }},
    {"split of the next cell", "sums to", [](MemoryPlan& p) { ++p.cells.split_offset[1]; }},
    {"split dropped", "recount gives",
     [](MemoryPlan& p) {
       p.cells.split.erase(p.cells.split.begin());
       for (std::size_t i = 1; i < p.cells.split_offset.size(); ++i) --p.cells.split_offset[i];
     }},
    {"transfer", "transfer/assignments", [](MemoryPlan& p) { ++p.cells.transfer[17]; }},
    {"transfers swapped", "transfer/assignments",
     [](MemoryPlan& p) {
       for (std::size_t i = 0; i + 1 < p.cells.transfer.size(); ++i)
         if (p.cells.transfer[i] != p.cells.transfer[i + 1])
           return std::swap(p.cells.transfer[i], p.cells.transfer[i + 1]);
     }},
    {"rank_tokens", "metrics/rank_tokens of", [](MemoryPlan& p) { --p.cells.rank_tokens[3]; }},
    {"last rank_tokens", "metrics/rank_tokens of", [](MemoryPlan& p) { ++p.cells.rank_tokens.back(); }},
    {"rank_tokens_static", "metrics/rank_tokens_static of",
     [](MemoryPlan& p) { ++p.cells.rank_tokens_static[0]; }},
};

TEST(Check, FindsEveryMutation) {
  const RandomPlan random(wide_case());
  ASSERT_GE(random.plan.cells.copy_offset[1], 3) << "the mutations need copies in the first cell";
  ASSERT_GE(random.plan.moves.size(), 3u);
  for (const Mutation& mutation : kMutations) {
    MemoryPlan changed = random.plan;
    mutation.change(changed);
    const CheckReport report = check(random, changed);
    EXPECT_GT(report.broken_count, 0) << mutation.name;
    EXPECT_THAT(report.broken, Contains(HasSubstr(mutation.says))) << mutation.name;
  }
}

TEST(Check, SourcesWithoutSequencesSendNothing) {
  RandomPlan random(
      {.sequences = 3, .micro_batches = 1, .topology = {.ep_size = 4, .ep_groups = 1, .gpus_per_node = 4}});
  MemoryPlan changed = random.plan;
  const auto& sources = changed.plan.source_rank;
  RankId idle(0);
  while (std::count(sources.begin(), sources.end(), idle.value()) > 0) ++idle;
  ++changed.cells.transfer[idle.index() * 4];
  EXPECT_THAT(check(random, changed).broken, Contains(HasSubstr("a recount gives 0")));
  changed = random.plan;
  changed.cells.split[0].source = idle;
  EXPECT_THAT(check(random, changed).broken, Contains(HasSubstr("the dump has 0")));
}

TEST(Check, WhatTheDumpFixesStays) {
  RandomPlan random(wide_case());
  random.dump.header.num_micro_batches = 2;
  random.dump.sequences.micro_batch = random.plan.plan.micro_batch;
  random.dump.sequences.source_rank = random.plan.plan.source_rank;
  expect_valid(check(random, random.plan));
  random.dump.sequences.micro_batch[4] ^= 1;
  EXPECT_THAT(check(random, random.plan).broken,
              Contains(HasSubstr(
                  "sequences/micro_batch was fixed by the dump and was changed, first of sequence 4")));
  random.dump.sequences.micro_batch = random.plan.plan.micro_batch;
  random.dump.sequences.source_rank[0] ^= 1;
  EXPECT_THAT(check(random, random.plan).broken, Contains(HasSubstr("sequences/source_rank was fixed")));
  random.dump.header.num_micro_batches = 4;
  EXPECT_THAT(check(random, random.plan).broken,
              Contains(HasSubstr("num_micro_batches 2 is not the dump's 4")));
}

TEST(Check, OptimizerSteps) {
  RandomPlan random({.sequences = 4, .micro_batches = 4});
  random.plan.plan.micro_batch = {0, 1, 2, 3};
  random.dump.header.optimizer_steps = 2;
  random.dump.sequences.group = {0, 0, 1, 1};
  const auto reported = [&](const char* what) {
    const auto broken = check(random, random.plan).broken;
    return std::any_of(broken.begin(), broken.end(),
                       [&](const std::string& rule) { return rule.find(what) != std::string::npos; });
  };
  EXPECT_FALSE(reported("prompt group"));
  random.dump.sequences.group = {0, 1, 1, 0};
  EXPECT_TRUE(reported("prompt group 1"));
  EXPECT_TRUE(reported("prompt group 0"));
  random.dump.sequences.micro_batch = random.plan.plan.micro_batch;  // the trainer's own choice
  EXPECT_FALSE(reported("prompt group"));
  EXPECT_FALSE(reported("optimizer steps"));
  random.dump.header.optimizer_steps = 3;
  EXPECT_TRUE(reported("not a multiple of the dump's 3 optimizer steps"));
}

TEST(Check, AgainstThePreviousPlan) {
  const RandomPlan random(wide_case());
  const Plan& plan = random.plan.plan;
  // A next step that changes the homes of experts 0 and 5 of layer 1 and keeps the rest.
  MemoryPlan next = random.plan;
  next.plan.previous = plan.placement;
  std::swap(next.plan.placement.home(LayerId(1), ExpertId(0)),
            next.plan.placement.home(LayerId(1), ExpertId(5)));
  next.plan.slot_expert = assign_slots(next.plan.placement, 4, 2, plan.placement, plan.slot_expert, 2);
  next.moves = moves_between(next.plan.previous, next.plan.placement);
  const auto about_placement = [&](const MemoryPlan& changed, PreviousKnown previous) {
    std::vector<std::string> rules;
    for (const auto& rule : check(random, changed, {.previous = previous}).broken)
      if (rule.find("micro-batch") == std::string::npos) rules.push_back(rule);
    return rules;
  };
  const PreviousKnown known{PreviousKnown::Kind::plan, &plan};
  EXPECT_THAT(about_placement(next, known), ::testing::IsEmpty());
  EXPECT_THAT(about_placement(next, {PreviousKnown::Kind::none}), Contains(HasSubstr("no plan was before")));
  EXPECT_THAT(about_placement(random.plan, known), Contains(HasSubstr("previous plan's expert_rank")));

  MemoryPlan swapped = next;  // two slots of one rank change places: only the plan before tells
  std::swap(swapped.plan.slot_expert[0], swapped.plan.slot_expert[1]);
  EXPECT_THAT(about_placement(swapped, {}), ::testing::IsEmpty());
  EXPECT_THAT(about_placement(swapped, known), Contains(HasSubstr("by the plan before it holds")));

  Plan wider = plan;
  wider.header.topology.ep_size = 8;
  EXPECT_THAT(about_placement(next, {PreviousKnown::Kind::plan, &wider}),
              Contains(HasSubstr("the previous plan has other")));
}

TEST(Check, TransfersMayBeLeftOut) {
  const RandomPlan random(wide_case());
  MemoryPlan changed = random.plan;
  changed.cells.transfer.clear();
  expect_valid(check(random, changed, {.require_transfers = false}));
}

TEST(Check, IdsBeyondTheExpertsAreReported) {
  RandomPlan random(wide_case());
  random.ids[5] = 99;
  EXPECT_THAT(check(random, random.plan).broken, Contains(HasSubstr("the dump holds 1 expert ids >= E")));
}

TEST(Check, ShowsTheFirstFiftyAndCountsAll) {
  const RandomPlan random(wide_case());
  MemoryPlan changed = random.plan;
  for (auto& tokens : changed.cells.rank_tokens_static) ++tokens;
  for (auto& entry : changed.cells.split) ++entry.tokens;
  const CheckReport report = check(random, changed);
  EXPECT_EQ(report.broken.size(), 50u);
  EXPECT_GT(report.broken_count, 50);
  EXPECT_THAT(report.broken.front(), HasSubstr("micro-batch 0 layer 0"));
}

}  // namespace
}  // namespace relibra
