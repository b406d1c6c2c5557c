#include "tests/support/execution_case.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "lib/base/random.h"

namespace relibra::testing {
namespace {

std::uint32_t below(Random& random, std::int64_t bound) {
  return random.below(static_cast<std::uint32_t>(bound));
}

template <class T>
void shuffle(std::vector<T>& values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[below(random, static_cast<std::int64_t>(i))]);
}

void draw_dump(ExecutionCase& result, const CaseOptions& o, Random& random) {
  RoutingHeader& header = result.dump.header;
  header.num_experts = o.experts;
  header.top_k = o.top_k;
  for (int l = 0; l < o.layers; ++l) header.layers.push_back(3 + l);
  header.num_micro_batches = o.micro_batches;
  Sequences& sequences = result.dump.sequences;
  for (int s = 0; s < o.sequences; ++s) {
    const auto rows = static_cast<std::int64_t>(below(random, o.max_rows + 1));
    sequences.row_offset.push_back(sequences.row_offset.back() + rows);
    sequences.num_tokens.push_back(rows + 1);
    const int first = o.empty_micro_batch && o.micro_batches > 1 ? 1 : 0;
    result.plan.micro_batch.push_back(first +
                                      static_cast<std::int32_t>(below(random, o.micro_batches - first)));
    const int ranks = o.topology.world() - (o.idle_rank && o.topology.world() > 1 ? 1 : 0);
    result.plan.source_rank.push_back(static_cast<std::int32_t>(below(random, ranks)));
  }
  // Expert popularity falls off, so that some experts are hot and some get nothing.
  std::vector<int> experts(static_cast<std::size_t>(o.experts));
  for (std::int64_t row = 0; row < sequences.total_rows(); ++row) {
    const bool no_route = random.uniform() < o.missing_rows;
    for (int l = 0; l < o.layers; ++l) {
      std::iota(experts.begin(), experts.end(), 0);
      for (int k = 0; k < o.top_k; ++k) {
        const auto last = static_cast<std::int64_t>(experts.size()) - k;
        const auto pick =
            static_cast<std::size_t>(static_cast<double>(last) * random.uniform() * random.uniform());
        const bool none = no_route || random.uniform() < o.missing;
        result.ids.push_back(none ? std::int16_t{-1} : static_cast<std::int16_t>(experts[pick]));
        std::rotate(experts.begin() + static_cast<std::ptrdiff_t>(pick),
                    experts.begin() + static_cast<std::ptrdiff_t>(pick) + 1, experts.end());
        if (o.weights) result.weights.push_back(static_cast<float>(0.1 + random.uniform()));
      }
    }
  }
  header.has_weights = o.weights;
}

void draw_placement(ExecutionCase& result, const CaseOptions& o, Random& random) {
  Plan& plan = result.plan;
  PlanHeader& header = plan.header;
  header.policy = "random";
  header.num_experts = o.experts;
  header.top_k = o.top_k;
  header.num_micro_batches = o.micro_batches;
  header.topology = o.topology;
  header.slots_per_rank = home_slots(o.experts, o.topology.ep_size);
  header.replica_slots = o.replica_slots;
  header.physical_slots = header.slots_per_rank + o.replica_slots;
  header.replica_domain = o.domain;
  header.layers = result.dump.header.layers;
  plan.previous = Placement::contiguous(o.layers, o.experts, o.topology.ep_size);
  plan.placement = plan.previous;
  for (LayerId l : all<LayerId>(o.layers)) {
    std::vector<EpRankId> places;
    for (int i = 0; i < o.topology.ep_size * header.slots_per_rank; ++i)
      places.emplace_back(i / header.slots_per_rank);
    shuffle(places, random);
    for (ExpertId e : all<ExpertId>(o.experts)) plan.placement.home(l, e) = places[e.index()];
  }
  plan.slot_expert =
      assign_slots(plan.placement, o.topology.ep_size, header.slots_per_rank, plan.previous,
                   initial_slots(o.layers, o.experts, o.topology.ep_size), header.slots_per_rank);
}

std::vector<Copy> draw_copies(const Plan& plan, LayerId l, double share, Random& random) {
  const Topology& t = plan.header.topology;
  std::vector<Copy> copies;
  for (RankId r : all<RankId>(t.world()))
    for (int slot = 0; slot < plan.header.replica_slots; ++slot) {
      if (random.uniform() >= share) continue;
      const ExpertId e(below(random, plan.header.num_experts));
      const RankId home = t.rank_of(t.group_of(r), plan.placement.home(l, e));
      const bool taken = std::any_of(copies.begin(), copies.end(),
                                     [&](const Copy& c) { return c.expert == e && c.rank == r; });
      if (home == r || taken) continue;
      if (plan.header.replica_domain == ReplicaDomain::node && t.node_of(home) != t.node_of(r)) continue;
      copies.push_back({e, r, slot});
    }
  std::sort(copies.begin(), copies.end());
  return copies;
}

/// Tokens of each (expert, source) of a cell.
std::map<std::pair<ExpertId, RankId>, std::int64_t> count_cell(const ExecutionCase& result, MicroBatchId m,
                                                               LayerId l) {
  std::map<std::pair<ExpertId, RankId>, std::int64_t> count;
  const auto& header = result.dump.header;
  const Sequences& sequences = result.dump.sequences;
  for (std::size_t s = 0; s < result.plan.micro_batch.size(); ++s) {
    if (result.plan.micro_batch[s] != m.value()) continue;
    for (auto row = sequences.row_offset[s]; row < sequences.row_offset[s + 1]; ++row)
      for (int k = 0; k < header.top_k; ++k) {
        const auto id =
            result.ids[static_cast<std::size_t>((row * header.num_layers() + l.value()) * header.top_k + k)];
        if (id >= 0) ++count[{ExpertId(id), RankId(result.plan.source_rank[s])}];
      }
  }
  return count;
}

void draw_cell(ExecutionCase& result, const CaseOptions& o, MicroBatchId m, LayerId l, Random& random) {
  const Topology& t = o.topology;
  const auto copies = draw_copies(result.plan, l, o.copy_share, random);
  std::vector<std::int64_t> load(static_cast<std::size_t>(t.world()));
  for (const auto& [key, tokens] : count_cell(result, m, l)) {
    const auto& [e, source] = key;
    std::vector<RankId> holders;
    for (const Copy& copy : copies)
      if (copy.expert == e && t.group_of(copy.rank) == t.group_of(source)) holders.push_back(copy.rank);
    const RankId home = t.rank_of(t.group_of(source), result.plan.placement.home(l, e));
    if (holders.empty()) {
      load[home.index()] += tokens;
      continue;
    }
    holders.push_back(home);
    std::map<RankId, std::int64_t> dealt;
    for (std::int64_t i = 0; i < tokens; ++i)
      ++dealt[holders[below(random, static_cast<std::int64_t>(holders.size()))]];
    for (const auto& [rank, n] : dealt) {
      result.cells.split.push_back({e, source, rank, static_cast<std::int32_t>(n)});
      load[rank.index()] += n;
    }
  }
  auto& cells = result.cells;
  cells.copies.insert(cells.copies.end(), copies.begin(), copies.end());
  cells.copy_offset.push_back(static_cast<std::int64_t>(cells.copies.size()));
  cells.split_offset.push_back(static_cast<std::int64_t>(cells.split.size()));
  cells.rank_tokens.insert(cells.rank_tokens.end(), load.begin(), load.end());
}

}  // namespace

std::vector<exec::CellRoutes> ExecutionCase::routes(MicroBatchId m, LayerId l) const {
  const int k = dump.header.top_k;
  std::vector<exec::CellRoutes> cells(static_cast<std::size_t>(plan.header.topology.world()), {.top_k = k});
  for (std::size_t s = 0; s < plan.micro_batch.size(); ++s) {
    if (plan.micro_batch[s] != m.value()) continue;
    exec::CellRoutes& cell = cells[static_cast<std::size_t>(plan.source_rank[s])];
    for (auto row = dump.sequences.row_offset[s]; row < dump.sequences.row_offset[s + 1]; ++row)
      for (int i = 0; i < k; ++i) {
        const auto at = static_cast<std::size_t>((row * dump.header.num_layers() + l.value()) * k + i);
        cell.expert.push_back(ids[at] < 0 ? ExpertId() : ExpertId(ids[at]));
        cell.weight.push_back(weights.empty() ? 1.0f / static_cast<float>(k) : weights[at]);
      }
  }
  return cells;
}

ExecutionCase execution_case(std::uint64_t seed, const CaseOptions& options, std::uint64_t plan_seed) {
  ExecutionCase result;
  Random dump(seed, 1), plan(seed, 2 + plan_seed);
  draw_dump(result, options, dump);
  draw_placement(result, options, plan);
  result.cells.cells = {0, result.plan.header.num_cells()};
  for (MicroBatchId m : all<MicroBatchId>(options.micro_batches))
    for (LayerId l : all<LayerId>(options.layers)) draw_cell(result, options, m, l, plan);
  return result;
}

void copy_everywhere(ExecutionCase& input, ExpertId expert) {
  const Topology& t = input.plan.header.topology;
  PlanCells cells;
  cells.cells = input.cells.cells;
  input.plan.header.replica_domain = ReplicaDomain::group;
  for (MicroBatchId m : all<MicroBatchId>(input.plan.header.num_micro_batches))
    for (LayerId l : all<LayerId>(input.plan.header.num_layers())) {
      for (RankId r : all<RankId>(t.world()))
        if (input.plan.placement.home(l, expert) != t.ep_rank_of(r)) cells.copies.push_back({expert, r, 0});
      for (const auto& [key, tokens] : count_cell(input, m, l)) {
        if (key.first != expert || t.ep_size == 1) continue;  // a split goes with copies
        for (EpRankId p : all<EpRankId>(t.ep_size)) {
          const auto share = static_cast<std::int32_t>(share_of(tokens, p.value(), t.ep_size).size());
          if (share > 0)
            cells.split.push_back({expert, key.second, t.rank_of(t.group_of(key.second), p), share});
        }
      }
      cells.copy_offset.push_back(static_cast<std::int64_t>(cells.copies.size()));
      cells.split_offset.push_back(static_cast<std::int64_t>(cells.split.size()));
    }
  input.cells = cells;  // without rank_tokens
}

ExecutionCase hand_case(int world) {
  ExecutionCase input;
  input.dump.header = {
      .num_experts = 2, .top_k = 2, .layers = {0}, .num_micro_batches = 1, .has_weights = true};
  input.dump.sequences = {.row_offset = {0, 2}, .num_tokens = {3}};
  input.ids = {0, 1, 0, -1};
  input.weights = {0.5f, 0.25f, 1.0f, 1.0f};
  PlanHeader& header = input.plan.header;
  header.num_experts = header.top_k = 2;
  header.num_micro_batches = 1;
  header.topology = {.ep_size = world, .ep_groups = 1, .gpus_per_node = world};
  header.slots_per_rank = home_slots(2, world);
  header.replica_slots = 1;
  header.layers = {0};
  input.plan.placement = input.plan.previous = Placement::contiguous(1, 2, world);
  input.plan.slot_expert = initial_slots(1, 2, world);
  input.plan.micro_batch = input.plan.source_rank = {0};
  input.cells.cells = {0, 1};
  if (world > 1) {
    input.cells.copies = {{ExpertId(0), RankId(1), 0}};
    input.cells.split = {{ExpertId(0), RankId(0), RankId(0), 1}, {ExpertId(0), RankId(0), RankId(1), 1}};
  }
  input.cells.copy_offset = {0, static_cast<std::int64_t>(input.cells.copies.size())};
  input.cells.split_offset = {0, static_cast<std::int64_t>(input.cells.split.size())};
  return input;
}

}  // namespace relibra::testing
