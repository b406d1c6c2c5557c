#include "tests/support/random_plan.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <set>

namespace relibra::testing {
namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

template <class T>
void shuffle(std::vector<T>& values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[random.below(static_cast<std::uint32_t>(i))]);
}

/// The part of `all` that belongs to cells [first, last), from a table of `width` per cell.
template <class T>
std::vector<T> rows(const std::vector<T>& all, Range cells, std::int64_t width) {
  return {all.begin() + cells.first * width, all.begin() + cells.last * width};
}

template <class T>
void copy_list(const std::vector<std::int64_t>& offset, const std::vector<T>& list, Range cells,
               std::vector<std::int64_t>& to_offset, std::vector<T>& to) {
  to_offset = {0};
  for (std::int64_t c = cells.first; c < cells.last; ++c)
    to_offset.push_back(offset[at(c) + 1] - offset[at(cells.first)]);
  to.assign(list.begin() + offset[at(cells.first)], list.begin() + offset[at(cells.last)]);
}

}  // namespace

PlanView MemoryPlan::view() const {
  const std::int64_t world = plan.header.topology.world(), width = plan.header.topology.ep_size;
  return {.plan = plan,
          .moves = moves,
          .has_transfers = !cells.transfer.empty(),
          .read = [this, world, width](Range wanted, bool transfers) {
            PlanCells part;
            part.cells = wanted;
            copy_list(cells.copy_offset, cells.copies, wanted, part.copy_offset, part.copies);
            copy_list(cells.split_offset, cells.split, wanted, part.split_offset, part.split);
            part.rank_tokens = rows(cells.rank_tokens, wanted, world);
            part.rank_tokens_static = rows(cells.rank_tokens_static, wanted, world);
            if (transfers) part.transfer = rows(cells.transfer, wanted, world * width);
            return part;
          }};
}

RandomPlan::RandomPlan(const RandomCase& random) : random_(random), draw_(random.seed) {
  draw_routes();
  draw_placement();
  PlanCells& cells = plan.cells;
  cells.cells = {0, plan.plan.header.num_cells()};
  for (MicroBatchId m : all<MicroBatchId>(random.micro_batches))
    for (LayerId l : all<LayerId>(random.layers)) draw_cell(m, l);
  for (MicroBatchId m : all<MicroBatchId>(random.micro_batches))
    for (LayerId l : all<LayerId>(random.layers)) {
      const SlowCell cell = slow_cell(m, l);
      cells.transfer.insert(cells.transfer.end(), cell.transfer.begin(), cell.transfer.end());
      cells.rank_tokens_static.insert(cells.rank_tokens_static.end(), cell.rank_tokens[0].begin(),
                                      cell.rank_tokens[0].end());
      cells.rank_tokens.insert(cells.rank_tokens.end(), cell.rank_tokens[1].begin(),
                               cell.rank_tokens[1].end());
    }
  plan.plan.header.dump_digest = slow_digest();
}

MemorySource RandomPlan::source() const {
  return MemorySource::with_type(dump, random_.type, ids);
}

void RandomPlan::draw_routes() {
  dump.header.num_experts = random_.experts;
  dump.header.top_k = random_.top_k;
  dump.header.step = 5;
  for (int l = 0; l < random_.layers; ++l) dump.header.layers.push_back(3 + l);
  const bool is_signed = random_.type != IdType::u8 && random_.type != IdType::u16;
  const int none = is_signed ? -1 : 255;
  if (!is_signed) dump.header.missing_id = none;
  std::vector<int> experts(at(random_.experts));
  std::iota(experts.begin(), experts.end(), 0);
  for (int s = 0; s < random_.sequences; ++s) {
    const auto length = draw_.below(static_cast<std::uint32_t>(random_.longest) + 1);
    dump.sequences.row_offset.push_back(dump.sequences.total_rows() + length);
    for (std::uint32_t row = 0; row < length * static_cast<std::uint32_t>(random_.layers); ++row) {
      shuffle(experts, draw_);
      for (int k = 0; k < random_.top_k; ++k)
        ids.push_back(draw_.uniform() < random_.missing ? none : experts[at(k)]);
    }
  }
}

void RandomPlan::draw_placement() {
  const Topology& t = random_.topology;
  const int slots = home_slots(random_.experts, t.ep_size);
  Plan& p = plan.plan;
  p.header = {.step = dump.header.step,
              .policy = "random",
              .seed = random_.seed,
              .tool = "test",
              .num_experts = random_.experts,
              .top_k = random_.top_k,
              .num_micro_batches = random_.micro_batches,
              .topology = t,
              .slots_per_rank = slots,
              .replica_slots = random_.replica_slots,
              .physical_slots = slots + random_.replica_slots,
              .replica_domain = random_.domain,
              .layers = dump.header.layers};
  p.previous = Placement::contiguous(random_.layers, random_.experts, t.ep_size);
  p.placement = p.previous;
  for (LayerId l : all<LayerId>(random_.layers)) {
    const auto layer = p.placement.layer(l);
    for (std::size_t i = layer.size(); i > 1; --i)
      std::swap(layer[i - 1], layer[draw_.below(static_cast<std::uint32_t>(i))]);
  }
  p.slot_expert = assign_slots(p.placement, t.ep_size, slots, p.previous,
                               initial_slots(random_.layers, random_.experts, t.ep_size), slots);
  plan.moves = moves_between(p.previous, p.placement);
  for (int s = 0; s < random_.sequences; ++s) {
    p.micro_batch.push_back(
        static_cast<std::int32_t>(draw_.below(static_cast<std::uint32_t>(random_.micro_batches))));
    p.source_rank.push_back(static_cast<std::int32_t>(draw_.below(static_cast<std::uint32_t>(t.world()))));
  }
}

/// Copies of random experts in the free slots, and the tokens of each source dealt at random to the holders.
void RandomPlan::draw_cell(MicroBatchId m, LayerId l) {
  const Topology& t = random_.topology;
  PlanCells& cells = plan.cells;
  std::set<std::pair<int, int>> copies;
  std::vector<int> next_slot(at(t.world()));
  for (int tries = 0; tries < 3 * t.world() * random_.replica_slots; ++tries) {
    const RankId r(draw_.below(static_cast<std::uint32_t>(t.world())));
    const ExpertId e(draw_.below(static_cast<std::uint32_t>(random_.experts)));
    const RankId home = t.rank_of(t.group_of(r), plan.plan.placement.home(l, e));
    const bool reachable = random_.domain == ReplicaDomain::group || t.node_of(r) == t.node_of(home);
    if (r == home || !reachable || next_slot[r.index()] == random_.replica_slots) continue;
    if (!copies.emplace(e.value(), r.value()).second) continue;
    ++next_slot[r.index()];
  }
  for (auto& slot : next_slot) slot = 0;
  for (const auto& [e, r] : copies) cells.copies.push_back({ExpertId(e), RankId(r), next_slot[at(r)]++});
  cells.copy_offset.push_back(std::ssize(cells.copies));
  const auto counts = count(m, l);
  for (ExpertId e : all<ExpertId>(random_.experts))
    for (RankId source : all<RankId>(t.world())) {
      std::vector<int> holders;
      for (const auto& [expert, r] : copies)
        if (expert == e.value() && t.group_of(RankId(r)) == t.group_of(source)) holders.push_back(r);
      if (holders.empty()) continue;
      holders.push_back(t.rank_of(t.group_of(source), plan.plan.placement.home(l, e)).value());
      std::map<int, int> share;
      for (int i = 0; i < counts[e.index() * at(t.world()) + source.index()]; ++i)
        ++share[holders[draw_.below(static_cast<std::uint32_t>(holders.size()))]];
      for (const auto& [r, tokens] : share) cells.split.push_back({e, source, RankId(r), tokens});
    }
  cells.split_offset.push_back(std::ssize(cells.split));
}

std::vector<std::int32_t> RandomPlan::count(MicroBatchId m, LayerId l) const {
  const int world = random_.topology.world(), layers = random_.layers, k = random_.top_k;
  std::vector<std::int32_t> counts(at(random_.experts * world));
  for (std::int64_t s = 0; s < dump.sequences.size(); ++s) {
    if (plan.plan.micro_batch[at(s)] != m.value()) continue;
    for (std::int64_t row = dump.sequences.row_offset[at(s)]; row < dump.sequences.row_offset[at(s) + 1];
         ++row)
      for (int j = 0; j < k; ++j) {
        const int e = ids[at((row * layers + l.value()) * k + j)];
        if (e >= 0 && e < random_.experts) ++counts[at(e * world + plan.plan.source_rank[at(s)])];
      }
  }
  return counts;
}

SlowCell RandomPlan::slow_cell(MicroBatchId m, LayerId l) const {
  const Topology& t = random_.topology;
  const std::int64_t cell = plan.plan.header.cell(m, l);
  SlowCell slow{.counts = count(m, l),
                .transfer = std::vector<std::int32_t>(at(t.world() * t.ep_size)),
                .rank_tokens = {},
                .sent = {},
                .received = {}};
  for (int side : {0, 1}) {
    slow.rank_tokens[side].resize(at(t.world()));
    slow.sent[side].resize(at(t.nodes()));
    slow.received[side].resize(at(t.nodes()));
  }
  std::map<std::pair<int, int>, std::vector<int>> due;  // (expert, source): rank of each token, in reverse
  for (std::int64_t i = plan.cells.split_offset[at(cell + 1)] - 1; i >= plan.cells.split_offset[at(cell)];
       --i) {
    const SplitEntry& x = plan.cells.split[at(i)];
    auto& ranks = due[{x.expert.value(), x.source.value()}];
    ranks.insert(ranks.end(), at(x.tokens), x.rank.value());
  }
  const int block = (random_.experts + t.ep_size - 1) / t.ep_size;
  for (std::int64_t s = 0; s < dump.sequences.size(); ++s) {
    if (plan.plan.micro_batch[at(s)] != m.value()) continue;
    const RankId source(plan.plan.source_rank[at(s)]);
    for (std::int64_t row = dump.sequences.row_offset[at(s)]; row < dump.sequences.row_offset[at(s) + 1];
         ++row) {
      std::set<int> nodes[2];
      for (int j = 0; j < random_.top_k; ++j) {
        const int e = ids[at((row * random_.layers + l.value()) * random_.top_k + j)];
        if (e < 0 || e >= random_.experts) continue;
        const RankId before = t.rank_of(t.group_of(source), EpRankId(e / block));
        RankId after = t.rank_of(t.group_of(source), plan.plan.placement.home(l, ExpertId(e)));
        if (auto found = due.find({e, source.value()}); found != due.end()) {
          after = RankId(found->second.back());
          found->second.pop_back();
        }
        ++slow.rank_tokens[0][before.index()];
        ++slow.rank_tokens[1][after.index()];
        ++slow.transfer[source.index() * at(t.ep_size) + t.ep_rank_of(after).index()];
        nodes[0].insert(t.node_of(before).value());
        nodes[1].insert(t.node_of(after).value());
      }
      for (int side : {0, 1})
        for (int node : nodes[side]) {
          if (node == t.node_of(source).value()) continue;
          ++slow.sent[side][t.node_of(source).index()];
          ++slow.received[side][at(node)];
        }
    }
  }
  return slow;
}

std::string RandomPlan::slow_digest() const {
  std::map<std::uint64_t, std::uint64_t> counts;
  for (std::int64_t s = 0; s < dump.sequences.size(); ++s)
    for (std::int64_t row = dump.sequences.row_offset[at(s)]; row < dump.sequences.row_offset[at(s) + 1];
         ++row)
      for (int l = 0; l < random_.layers; ++l)
        for (int j = 0; j < random_.top_k; ++j) {
          const int e = ids[at((row * random_.layers + l) * random_.top_k + j)];
          if (e >= 0 && e < random_.experts)
            ++counts[static_cast<std::uint64_t>((s * random_.layers + l) * random_.experts + e)];
        }
  std::uint64_t sum = 0;
  for (const auto& [i, c] : counts) sum += mix64(mix64(i + 1) ^ c);
  char text[20];
  std::snprintf(text, sizeof text, "c1-%016llx", static_cast<unsigned long long>(sum));
  return text;
}

}  // namespace relibra::testing
