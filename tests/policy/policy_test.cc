#include "lib/policy/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "lib/base/error.h"
#include "lib/base/random.h"

namespace relibra {
namespace {

struct Case {
  Topology topology;
  int experts = 0;
  int slots = 2;
  int micro_batches = 3;
};

// D = 1 and 2; nodes smaller than, equal to and larger than groups; E divisible by P and not; one expert.
const Case kCases[] = {
    {{.ep_size = 1, .ep_groups = 1, .gpus_per_node = 1}, 5},
    {{.ep_size = 4, .ep_groups = 1, .gpus_per_node = 4}, 61},
    {{.ep_size = 4, .ep_groups = 2, .gpus_per_node = 2}, 61, 1},
    {{.ep_size = 8, .ep_groups = 2, .gpus_per_node = 4}, 32},
    {{.ep_size = 16, .ep_groups = 1, .gpus_per_node = 8}, 128},
    {{.ep_size = 2, .ep_groups = 4, .gpus_per_node = 4}, 9, 3},
    {{.ep_size = 6, .ep_groups = 1, .gpus_per_node = 3}, 60},
    {{.ep_size = 8, .ep_groups = 1, .gpus_per_node = 4}, 5, 2},
    {{.ep_size = 4, .ep_groups = 1, .gpus_per_node = 2}, 1, 2},
    {{.ep_size = 4, .ep_groups = 1, .gpus_per_node = 4}, 16, 0},
};

// The counts of a step's micro-batches for one layer; the last micro-batch is empty.
std::vector<CellCounts> random_step(const Case& c, Random& random) {
  std::vector<double> weight(static_cast<std::size_t>(c.experts));
  for (double& w : weight) w = std::exp(random.normal());
  std::vector<CellCounts> cells;
  for (int m = 0; m < c.micro_batches; ++m) {
    CellCounts counts(c.experts, c.topology.world());
    for (ExpertId e : all<ExpertId>(c.experts))
      for (RankId r : all<RankId>(c.topology.world()))
        if (m + 1 < c.micro_batches && random.below(4) > 0)
          counts.at(e, r) = static_cast<std::int32_t>(200 * weight[e.index()] * random.uniform());
    cells.push_back(std::move(counts));
  }
  return cells;
}

LayerLoads loads_of(const Case& c, const std::vector<CellCounts>& cells) {
  LayerLoads loads{static_cast<int>(cells.size()), c.topology.ep_groups, c.experts, {}};
  for (const CellCounts& counts : cells)
    for (GroupId g : all<GroupId>(c.topology.ep_groups))
      for (ExpertId e : all<ExpertId>(c.experts)) loads.data.push_back(counts.total(e, g, c.topology));
  return loads;
}

LayerDecision decide(const Policy& policy, const Case& c, const std::vector<CellCounts>& cells) {
  const auto previous = Placement::contiguous(1, c.experts, c.topology.ep_size);
  const LayerLoads loads = loads_of(c, cells);
  return policy.between_steps(
      {.layer = LayerId(0), .loads = loads, .previous_home = previous.layer(LayerId(0))});
}

PolicyOptions options_of(const Case& c) {
  PolicyOptions options;
  options.topology = c.topology;
  options.num_experts = c.experts;
  options.replica_slots = c.slots;
  options.search_moves = 2000;
  options.seed = 5;
  return options;
}

// Copies: sorted, in range, each slot once, never on the home, in its node; by (group, expert).
std::map<std::pair<int, int>, std::set<int>> checked_copies(const Case& c, const PlanShape& shape,
                                                            const LayerDecision& layer,
                                                            const std::vector<Copy>& copies) {
  const Topology& t = c.topology;
  std::map<std::pair<int, int>, std::set<int>> held;
  std::set<std::pair<int, int>> used;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const Copy& copy = copies[i];
    const GroupId g = t.group_of(copy.rank);
    const RankId home = t.rank_of(g, layer.home[copy.expert.index()]);
    EXPECT_TRUE(i == 0 ||
                std::pair(copies[i - 1].expert, copies[i - 1].rank) < std::pair(copy.expert, copy.rank));
    EXPECT_TRUE(copy.slot >= 0 && copy.slot < shape.replica_slots);
    EXPECT_TRUE(used.insert({copy.rank.value(), copy.slot}).second);
    EXPECT_NE(copy.rank, home);
    if (shape.domain == ReplicaDomain::node) {
      EXPECT_EQ(t.node_of(copy.rank), t.node_of(home));
    }
    held[{g.value(), copy.expert.value()}].insert(copy.rank.value());
  }
  return held;
}

// Every rule that docs/formats.md has for copies and splits of a cell; returns the loads of all ranks.
std::vector<std::int64_t> checked_loads(const Case& c, const PlanShape& shape, const LayerDecision& layer,
                                        const CellCounts& counts, const CellPlan& plan) {
  const Topology& t = c.topology;
  const auto held = checked_copies(c, shape, layer, plan.copies);
  const auto home = [&](ExpertId e, GroupId g) { return t.rank_of(g, layer.home[e.index()]); };
  std::map<std::pair<int, int>, std::int64_t> sent;  // (expert, source)
  std::vector<std::int64_t> load(static_cast<std::size_t>(t.world()), 0);
  const auto key = [](const SplitEntry& s) { return std::tuple(s.expert, s.source, s.rank); };
  for (std::size_t i = 0; i < plan.split.size(); ++i) {
    const SplitEntry& entry = plan.split[i];
    const GroupId g = t.group_of(entry.source);
    EXPECT_TRUE(i == 0 || key(plan.split[i - 1]) < key(entry));
    EXPECT_GT(entry.tokens, 0);
    EXPECT_EQ(t.group_of(entry.rank), g);
    const auto copies = held.find({g.value(), entry.expert.value()});
    EXPECT_TRUE(copies != held.end() &&
                (entry.rank == home(entry.expert, g) || copies->second.count(entry.rank.value())));
    sent[{entry.expert.value(), entry.source.value()}] += entry.tokens;
    load[entry.rank.index()] += entry.tokens;
  }
  for (ExpertId e : all<ExpertId>(c.experts))
    for (RankId r : all<RankId>(t.world())) {
      const GroupId g = t.group_of(r);
      if (held.count({g.value(), e.value()})) {
        const auto entry = sent.find({e.value(), r.value()});
        EXPECT_EQ(entry == sent.end() ? 0 : entry->second, counts.at(e, r));
      } else {
        load[home(e, g).index()] += counts.at(e, r);
      }
    }
  return load;
}

std::int64_t sum(std::span<const std::int64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

class EveryPolicy : public testing::TestWithParam<std::string> {};

TEST_P(EveryPolicy, KeepsEveryRuleAndEveryAssignment) {
  Random random(3);
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << "P " << c.topology.ep_size << " D " << c.topology.ep_groups << " G "
                                    << c.topology.gpus_per_node << " E " << c.experts << " V " << c.slots);
    const auto cells = random_step(c, random);
    const auto policy = make_policy(GetParam(), options_of(c));
    const PlanShape shape = policy->shape();
    const LayerDecision layer = decide(*policy, c, cells);
    ASSERT_EQ(layer.home.size(), static_cast<std::size_t>(c.experts));
    std::vector<int> homes(static_cast<std::size_t>(c.topology.ep_size), 0);
    for (EpRankId r : layer.home) ++homes.at(r.index());
    EXPECT_LE(*std::max_element(homes.begin(), homes.end()), shape.slots_per_rank);
    for (const CellCounts& counts : cells) {
      const CellPlan plan = policy->inside_step(layer, counts);
      const auto load = checked_loads(c, shape, layer, counts, plan);
      std::int64_t total = 0;
      for (ExpertId e : all<ExpertId>(c.experts))
        for (GroupId g : all<GroupId>(c.topology.ep_groups)) total += counts.total(e, g, c.topology);
      EXPECT_EQ(sum(load), total);
      std::vector<int> held(load.size(), 0);
      for (RankId r : all<RankId>(c.topology.world()))
        held[r.index()] = homes[c.topology.ep_rank_of(r).index()];
      for (const Copy& copy : plan.copies) ++held[copy.rank.index()];
      EXPECT_LE(*std::max_element(held.begin(), held.end()), shape.physical_slots);
    }
  }
}

TEST_P(EveryPolicy, SameInputSameResult) {
  Random random(4);
  for (const Case& c : {kCases[1], kCases[3]}) {
    const auto cells = random_step(c, random);
    const auto first = make_policy(GetParam(), options_of(c)),
               second = make_policy(GetParam(), options_of(c));
    const LayerDecision layer = decide(*first, c, cells);
    first->inside_step(layer, cells[1]);
    EXPECT_EQ(decide(*second, c, cells).home, layer.home);
    const CellPlan a = first->inside_step(layer, cells[0]), b = second->inside_step(layer, cells[0]);
    EXPECT_EQ(a.copies, b.copies);
    EXPECT_EQ(a.split, b.split);
  }
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const PolicyEntry& entry : policies()) names.emplace_back(entry.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Table, EveryPolicy, testing::ValuesIn(policy_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Policies, UnknownNameListsTheNames) {
  try {
    make_policy("best", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_NE(std::string(error.what()).find("relibra-replicate"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("found best"), std::string::npos);
  }
}

// Loads 8 4 | 2 2, all from rank 1. Static computes 12 and 4. Replication copies an expert of rank 0 and
// sends 4 of its tokens. Largest first puts 8 on one rank and 4, 2 on the other, whose two slots are then
// full, so the last 2 join the 8: 10 and 6, of which greedy copies move half of the difference.
TEST(Policies, ByHand) {
  const Case c{{.ep_size = 2, .ep_groups = 1, .gpus_per_node = 2}, 4, 1, 1};
  CellCounts counts(4, 2);
  for (int e = 0; e < 4; ++e) counts.at(ExpertId(e), RankId(1)) = e == 0 ? 8 : e == 1 ? 4 : 2;
  const auto loads = [&](const char* name) {
    const auto policy = make_policy(name, options_of(c));
    const LayerDecision layer = decide(*policy, c, {counts});
    return checked_loads(c, policy->shape(), layer, counts, policy->inside_step(layer, counts));
  };
  EXPECT_EQ(loads("static"), (std::vector<std::int64_t>{12, 4}));
  EXPECT_EQ(loads("relibra-replicate"), (std::vector<std::int64_t>{8, 8}));
  EXPECT_EQ(loads("greedy"), (std::vector<std::int64_t>{8, 8}));
  const auto greedy = make_policy("greedy", options_of(c));
  EXPECT_EQ(decide(*greedy, c, {counts}).home,
            (std::vector<EpRankId>{EpRankId(0), EpRankId(1), EpRankId(1), EpRankId(0)}));
}

// Two nodes of two ranks: node 0 holds 40 on rank 0 alone and evens out at 20; node 1 holds 15 and 5, which
// is below 20 already and needs no copy.
TEST(Policies, ALessLoadedNodeIsBalancedOnlyAsFarAsTheGroupNeeds) {
  const Case c{{.ep_size = 4, .ep_groups = 1, .gpus_per_node = 2}, 4, 2, 1};
  CellCounts counts(4, 4);
  counts.at(ExpertId(0), RankId(0)) = 40;
  counts.at(ExpertId(2), RankId(0)) = 15;
  counts.at(ExpertId(3), RankId(0)) = 5;
  const auto policy = make_policy("relibra-replicate", options_of(c));
  const CellPlan plan = policy->inside_step(decide(*policy, c, {counts}), counts);
  EXPECT_EQ(plan.copies, (std::vector<Copy>{{ExpertId(0), RankId(1), 0}}));
}

// On skewed loads each stage helps, and both together are best.
TEST(Policies, SkewFallsFromStaticToBothStages) {
  const Case c{{.ep_size = 16, .ep_groups = 1, .gpus_per_node = 8}, 128, 2, 9};
  Random random(8);
  const auto cells = random_step(c, random);
  const auto skew = [&](const char* name) {
    const auto policy = make_policy(name, options_of(c));
    const LayerDecision layer = decide(*policy, c, cells);
    double skews = 0;
    for (std::size_t m = 0; m + 1 < cells.size(); ++m) {
      const auto load =
          checked_loads(c, policy->shape(), layer, cells[m], policy->inside_step(layer, cells[m]));
      skews += static_cast<double>(*std::max_element(load.begin(), load.end())) * 16 /
               static_cast<double>(sum(load));
    }
    return skews / static_cast<double>(cells.size() - 1);
  };
  const double fixed = skew("static"), reorder = skew("relibra-reorder");
  const double replicate = skew("relibra-replicate"), both = skew("relibra"), toy = skew("greedy");
  EXPECT_LT(reorder, fixed);
  EXPECT_LT(replicate, fixed);
  EXPECT_LT(both, std::min({reorder, replicate, toy}));
  EXPECT_LT(both, 1.02);
}

}  // namespace
}  // namespace relibra
