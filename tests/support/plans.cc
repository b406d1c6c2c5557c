#include "tests/support/plans.h"

#include "lib/base/random.h"

namespace relibra::test {
namespace {

int below(Random& random, int bound) {
  return static_cast<int>(random.below(static_cast<std::uint32_t>(bound)));
}

void fill_replicated(Plan& plan, const PlanSize& size, Random& random) {
  auto& h = plan.header;
  plan.previous = Placement::contiguous(size.layers, size.experts, size.topology.ep_size);
  plan.placement = plan.previous;
  for (LayerId l : all<LayerId>(size.layers))
    for (ExpertId e : all<ExpertId>(size.experts))
      if (below(random, 3) == 0) plan.placement.home(l, e) = EpRankId(below(random, size.topology.ep_size));
  h.slots_per_rank = size.experts;  // any placement fits
  h.physical_slots = h.slots_per_rank + h.replica_slots;
  for (LayerId l : all<LayerId>(size.layers))
    for (EpRankId r : all<EpRankId>(size.topology.ep_size))
      for (ExpertId e : all<ExpertId>(size.experts))
        plan.slot_expert.push_back(plan.placement.home(l, e) == r ? e : ExpertId{});
  for (int s = 0; s < size.sequences; ++s) {
    plan.micro_batch.push_back(below(random, size.micro_batches));
    plan.source_rank.push_back(below(random, size.topology.world()));
  }
}

void fill_cells(PlanCells& cells, const PlanHeader& h, bool transfers, Random& random) {
  const int world = h.topology.world();
  cells.cells = {0, h.num_cells()};
  for (std::int64_t c = 0; c < h.num_cells(); ++c) {
    for (int i = below(random, 3); i > 0; --i)
      cells.copies.push_back({ExpertId(below(random, h.num_experts)), RankId(below(random, world)),
                              below(random, h.replica_slots)});
    cells.copy_offset.push_back(std::ssize(cells.copies));
    for (int i = below(random, 4); i > 0; --i)
      cells.split.push_back({ExpertId(below(random, h.num_experts)), RankId(below(random, world)),
                             RankId(below(random, world)), 1 + below(random, 1000)});
    cells.split_offset.push_back(std::ssize(cells.split));
    for (int r = 0; r < world; ++r) {
      cells.rank_tokens.push_back(static_cast<std::int64_t>(random.next() >> 8));
      cells.rank_tokens_static.push_back(below(random, 1 << 30));
    }
    for (int i = 0; transfers && i < world * h.topology.ep_size; ++i)
      cells.transfer.push_back(below(random, 1 << 30));
  }
}

}  // namespace

WholePlan sample_plan(const PlanSize& size) {
  Random random(size.seed);
  WholePlan whole;
  auto& h = whole.plan.header;
  h.step = 12;
  h.policy = "relibra";
  h.seed = 0xFEDCBA9876543210ull;
  h.tool = "relibra test";
  h.num_experts = size.experts;
  h.top_k = 2;
  h.num_micro_batches = size.micro_batches;
  h.topology = size.topology;
  h.replica_slots = size.replica_slots;
  h.replica_domain = ReplicaDomain::group;
  h.dump_digest = "c1-0123456789abcdef";
  h.search_moves = 100000;
  for (int l = 0; l < size.layers; ++l) h.layers.push_back(l + 3);
  fill_replicated(whole.plan, size, random);
  fill_cells(whole.cells, h, size.transfers, random);
  return whole;
}

PlanCells part_of(const WholePlan& whole, Range cells) {
  PlanCells part;
  part.cells = cells;
  const auto& h = whole.plan.header;
  for (std::int64_t c = cells.first; c < cells.last; ++c) {
    const auto copies = whole.cells.copies_of(c);
    part.copies.insert(part.copies.end(), copies.begin(), copies.end());
    part.copy_offset.push_back(std::ssize(part.copies));
    const auto split = whole.cells.split_of(c);
    part.split.insert(part.split.end(), split.begin(), split.end());
    part.split_offset.push_back(std::ssize(part.split));
  }
  const auto rows = [&](auto& to, const auto& from, std::int64_t width) {
    if (!from.empty()) to.assign(from.begin() + cells.first * width, from.begin() + cells.last * width);
  };
  const std::int64_t world = h.topology.world();
  rows(part.rank_tokens, whole.cells.rank_tokens, world);
  rows(part.rank_tokens_static, whole.cells.rank_tokens_static, world);
  rows(part.transfer, whole.cells.transfer, world * h.topology.ep_size);
  return part;
}

RawFile tiny_plan() {
  RawFile raw;
  raw.set("format", "relibra.plan");
  raw.set("policy", "relibra");
  raw.set("tool", "by hand");
  raw.set("replica_domain", "node");
  raw.set("dump_digest", "c1-0000000000000000");
  const std::pair<const char*, int> numbers[] = {
      {"version", 1},       {"step", 7},          {"seed", 1},           {"num_experts", 4},
      {"num_layers", 1},    {"top_k", 2},         {"ep_size", 2},        {"num_micro_batches", 2},
      {"num_ep_groups", 1}, {"gpus_per_node", 2}, {"slots_per_rank", 2}, {"replica_slots", 1},
      {"search_moves", 0},  {"physical_slots", 3}};
  for (const auto& [name, value] : numbers) raw.set(name, value);
  const auto i64 = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> values) {
    return RawArray{.type = H5T_STD_I64LE, .shape = std::move(shape), .values = std::move(values)};
  };
  raw["layers"] = {.shape = {1}, .values = {0}};
  raw["placement/expert_rank"] = {.shape = {1, 4}, .values = {0, 0, 1, 1}};
  raw["placement/previous_rank"] = {.shape = {1, 4}, .values = {0, 0, 1, 1}};
  raw["placement/slot_expert"] = {.shape = {1, 2, 2}, .values = {0, 1, 2, 3}};
  raw["placement/moves"] = {.shape = {0, 4}};
  raw["sequences/micro_batch"] = {.shape = {2}, .values = {0, 1}};
  raw["sequences/source_rank"] = {.shape = {2}, .values = {0, 1}};
  raw["replicas/offset"] = i64({3}, {0, 1, 2});
  raw["replicas/expert"] = {.shape = {2}, .values = {0, 0}};
  raw["replicas/rank"] = {.shape = {2}, .values = {1, 1}};
  raw["replicas/slot"] = {.shape = {2}, .values = {0, 0}};
  raw["split/offset"] = i64({3}, {0, 2, 3});
  raw["split/expert"] = {.shape = {3}, .values = {0, 0, 0}};
  raw["split/source"] = {.shape = {3}, .values = {0, 0, 1}};
  raw["split/rank"] = {.shape = {3}, .values = {0, 1, 1}};
  raw["split/tokens"] = {.shape = {3}, .values = {3, 2, 4}};
  raw["transfer/assignments"] = {.shape = {2, 1, 2, 2}, .values = {3, 7, 0, 0, 0, 0, 2, 6}};
  raw["metrics/rank_tokens"] = i64({2, 1, 2}, {3, 7, 2, 6});
  raw["metrics/rank_tokens_static"] = i64({2, 1, 2}, {5, 5, 6, 2});
  return raw;
}

}  // namespace relibra::test
