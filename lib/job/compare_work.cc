#include "lib/job/compare_work.h"

#include <algorithm>
#include <numeric>

#include "lib/base/random.h"
#include "lib/job/metrics.h"

namespace relibra {
namespace {

using Side = MicroBatchRecount::Side;

/// Fingerprint of a cell's copies, to see whether they change from micro-batch to micro-batch.
std::uint64_t fingerprint(std::span<const Copy> copies) {
  std::uint64_t hash = mix64(copies.size());
  for (const Copy& c : copies)
    hash = mix64(hash ^ (static_cast<std::uint64_t>(c.expert.value()) << 32 | c.rank.index()));
  return hash;
}

struct CellPrint {
  std::int64_t cell;
  std::uint64_t copies;
  std::int64_t count;
};

class WorkVisitor final : public RecountVisitor {
 public:
  explicit WorkVisitor(const Plan& plan) : plan_(plan) {}

  void bin(const PlanCells&, const BinRecount&) override {}
  void micro_batch(const PlanCells& cells, MicroBatchRecount& recount) override {
    sample_recount(plan_, cells, recount, samples);
    for (const LayerId l : all<LayerId>(plan_.header.num_layers())) {
      const std::int64_t cell = plan_.header.cell(recount.micro_batch(), l);
      const auto copies = cells.copies_of(cell);
      prints.push_back({cell, fingerprint(copies), std::ssize(copies)});
      for (const GroupId g : all<GroupId>(plan_.header.topology.ep_groups))
        add_group(cell, l, g, copies, recount);
    }
  }

  PlanSamples samples;
  std::vector<GroupWork> groups;
  std::vector<std::int64_t> rows;
  std::vector<std::int32_t> experts;
  std::vector<CellPrint> prints;

 private:
  void add_group(std::int64_t cell, LayerId l, GroupId g, std::span<const Copy> copies,
                 MicroBatchRecount& recount) {
    const Topology& t = plan_.header.topology;
    const auto home = plan_.placement.layer(l);
    GroupWork work{.cell = cell, .group = g.value(), .rows = recount.rows()};
    work.push = push_work(t, g, home, copies);
    const int first = t.node_of(t.rank_of(g, EpRankId(0))).value();
    for (int n = first; n < first + t.domains_per_group() && t.domains_per_group() > 1; ++n) {
      const auto node = static_cast<std::size_t>(n);
      work.pairs =
          std::max({work.pairs, recount.sent(Side::after, l)[node], recount.received(Side::after, l)[node]});
    }
    groups.push_back(work);
    const auto loads =
        recount.rank_tokens(Side::after, l)
            .subspan(g.index() * static_cast<std::size_t>(t.ep_size), static_cast<std::size_t>(t.ep_size));
    rows.insert(rows.end(), loads.begin(), loads.end());
    std::vector<std::int32_t> count(loads.size());
    const auto tokens = recount.expert_tokens(l, g);
    for (std::size_t e = 0; e < home.size(); ++e)
      if (tokens[e] > 0) ++count[home[e].index()];
    for (const Copy& copy : copies)
      if (t.group_of(copy.rank) == g) ++count[t.ep_rank_of(copy.rank).index()];
    experts.insert(experts.end(), count.begin(), count.end());
  }

  const Plan& plan_;
};

/// Some layer has copies, and none changes them from one micro-batch to the next.
bool resident(const PlanHeader& header, std::vector<CellPrint> prints) {
  std::sort(prints.begin(), prints.end(),
            [](const CellPrint& a, const CellPrint& b) { return a.cell < b.cell; });
  const auto layers = static_cast<std::size_t>(header.num_layers());
  bool any = false;
  for (std::size_t i = 0; i < prints.size(); ++i) {
    if (prints[i].copies != prints[i % layers].copies) return false;
    any = any || prints[i].count > 0;
  }
  return any && header.num_micro_batches > 1;
}

template <class T>
void reorder(std::vector<T>& values, std::span<const std::size_t> order, std::size_t width) {
  std::vector<T> sorted;
  sorted.reserve(values.size());
  for (const std::size_t i : order)
    sorted.insert(sorted.end(), values.begin() + static_cast<std::ptrdiff_t>(i * width),
                  values.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
  values = std::move(sorted);
}

}  // namespace

MeasuredWork measure_work(const Comm& comm, RoutingSource& source, const PlanView& view,
                          const RecountOptions& options) {
  WorkVisitor visitor(view.plan);
  recount(comm, source, view, visitor, options);
  const PlanHeader& header = view.plan.header;
  MeasuredWork result{.samples = gather_samples(comm, visitor.samples)};
  StepWork& work = result.work;
  work.topology = header.topology;
  work.layers = header.num_layers();
  work.optimizer_steps = source.dump().header.optimizer_steps;
  work.resident_copies = resident(header, comm.gather_all(std::span<const CellPrint>(visitor.prints)));
  work.moves = move_work(header.topology, moves_between(view.plan.previous, view.plan.placement));
  work.groups = comm.gather_all(std::span<const GroupWork>(visitor.groups));
  work.rank_rows = comm.gather_all(std::span<const std::int64_t>(visitor.rows));
  work.rank_experts = comm.gather_all(std::span<const std::int32_t>(visitor.experts));
  std::vector<std::size_t> order(work.groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(work.groups[a].cell, work.groups[a].group) <
           std::pair(work.groups[b].cell, work.groups[b].group);
  });
  const auto width = static_cast<std::size_t>(header.topology.ep_size);
  reorder(work.groups, order, 1);
  reorder(work.rank_rows, order, width);
  reorder(work.rank_experts, order, width);
  return result;
}

}  // namespace relibra
