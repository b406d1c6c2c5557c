#include "lib/exec/setup.h"

#include <bit>
#include <map>
#include <string>

#include "lib/comm/agree.h"

namespace relibra::exec {
namespace {

/// What a source makes of one cell: what it sends, and what its destinations must know.
struct SourceCell {
  Dealt dealt;
  SendList send;
};

class Setup {
 public:
  Setup(const Comm& comm, const Plan& plan, const PlanCells& cells, std::span<const SourceRoutes> sources,
        const Selection& selection, const ScheduleOptions& options)
      : comm_(comm),
        plan_(plan),
        cells_(cells),
        sources_(sources),
        selection_(selection),
        options_(options) {}

  std::vector<RankSchedule> run() {
    if (options_.evenly) number_assignments();
    agreed(comm_, [&] { deal_all(); });
    start_schedules();
    for (std::size_t m = 0; m < selection_.micro_batches.size(); ++m) exchange_rows(m);
    return std::move(schedules_);
  }

 private:
  const Topology& topology() const { return plan_.header.topology; }
  std::size_t layers() const { return selection_.layers.size(); }
  std::int64_t plan_cell(std::size_t m, std::size_t l) const {
    return plan_.header.cell(selection_.micro_batches[m], selection_.layers[l]);
  }

  /// first_[cell * W + source]: number of the source's first assignment in its group's cell.
  void number_assignments() {
    const auto world = static_cast<std::size_t>(topology().world());
    std::vector<std::int64_t> count(selection_.cells() * world);
    for (const SourceRoutes& source : sources_)
      for (std::size_t c = 0; c < selection_.cells(); ++c)
        count[c * world + source.rank.index()] = source.cells[c].assignments();
    comm_.sum_in_place(std::span(count));
    first_.resize(count.size());
    for (std::size_t i = 0; i < count.size(); ++i)
      first_[i] = i % static_cast<std::size_t>(topology().ep_size) == 0 ? 0 : first_[i - 1] + count[i - 1];
  }

  std::vector<std::int32_t> used_slots(LayerId l) const {
    std::vector<std::int32_t> used(static_cast<std::size_t>(topology().ep_size));
    for (const EpRankId p : plan_.placement.layer(l)) ++used[p.index()];
    return used;
  }

  Holders holders(std::size_t m, std::size_t l, GroupId group) const {
    return Holders(plan_, selection_.micro_batches[m], selection_.layers[l], group,
                   cells_.copies_of(plan_cell(m, l)));
  }

  void deal_all() {
    source_cells_.resize(sources_.size());
    for (std::size_t s = 0; s < sources_.size(); ++s)
      for (std::size_t m = 0; m < selection_.micro_batches.size(); ++m)
        for (std::size_t l = 0; l < layers(); ++l) source_cells_[s].push_back(deal_cell(sources_[s], m, l));
  }

  SourceCell deal_cell(const SourceRoutes& source, std::size_t m, std::size_t l) const {
    const std::size_t c = selection_.cell(m, l);
    const GroupId group = topology().group_of(source.rank);
    const LayerId layer = selection_.layers[l];
    SourceCell cell;
    if (options_.evenly) {
      const auto first = first_[c * static_cast<std::size_t>(topology().world()) + source.rank.index()];
      cell.dealt = deal_evenly(source.cells[c], first, topology(), group, used_slots(layer));
    } else {
      cell.dealt = deal(source.cells[c], source.rank, holders(m, l, group), selection_.micro_batches[m],
                        layer, cells_.split_of(plan_cell(m, l)));
    }
    cell.send = build_send_list(cell.dealt, plan_.header.top_k, topology(), group);
    return cell;
  }

  void start_schedules() {
    const auto visits = build_visits(selection_);
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      RankSchedule& schedule = schedules_.emplace_back();
      schedule.rank = sources_[s].rank;
      schedule.topology = topology();
      schedule.domain = plan_.header.replica_domain;
      schedule.top_k = plan_.header.top_k;
      schedule.home_slots = plan_.header.slots_per_rank;
      schedule.copy_slots = plan_.header.replica_slots;
      schedule.selection = selection_;
      for (const auto& rows : sources_[s].rows)
        schedule.tokens.push_back(static_cast<std::int32_t>(rows.size()));
      schedule.cells.resize(selection_.cells());
      schedule.visits = visits;
      schedule.sum_homes = topology().ep_groups > 1;
    }
  }

  /// One micro-batch's row lists, from every source to every destination of its group. A list travels as
  /// (source, destination, layer, rows, assignments), routes a row, slots, weights.
  void exchange_rows(std::size_t m) {
    std::vector<std::vector<std::int32_t>> out(static_cast<std::size_t>(comm_.size()));
    for (std::size_t s = 0; s < sources_.size(); ++s)
      for (std::size_t l = 0; l < layers(); ++l)
        for (EpRankId p : all<EpRankId>(topology().ep_size)) {
          const SourceCell& cell = source_cells_[s][selection_.cell(m, l)];
          const RowList list = row_list(cell.send, cell.dealt, sources_[s].cells[selection_.cell(m, l)], p);
          const RankId to = topology().rank_of(topology().group_of(sources_[s].rank), p);
          auto& message = out[to.index() % out.size()];
          message.insert(message.end(), {sources_[s].rank.value(), to.value(), static_cast<std::int32_t>(l),
                                         static_cast<std::int32_t>(list.routes.size()),
                                         static_cast<std::int32_t>(list.slot.size())});
          message.insert(message.end(), list.routes.begin(), list.routes.end());
          message.insert(message.end(), list.slot.begin(), list.slot.end());
          for (const float weight : list.weight) message.push_back(std::bit_cast<std::int32_t>(weight));
        }
    const auto in = comm_.exchange(out);
    agreed(comm_, [&] { take_rows(m, in); });
  }

  void take_rows(std::size_t m, const std::vector<std::vector<std::int32_t>>& in) {
    // lists[(carried rank, layer)][source's EP rank]
    std::map<std::pair<RankId, std::size_t>, std::vector<RowList>> lists;
    for (const auto& message : in)
      for (auto at = message.begin(); at != message.end();) {
        const RankId source(at[0]), to(at[1]);
        auto& of_cell = lists[{to, static_cast<std::size_t>(at[2])}];
        of_cell.resize(static_cast<std::size_t>(topology().ep_size));
        RowList& list = of_cell[topology().ep_rank_of(source).index()];
        const auto rows = at + 5, slots = rows + at[3], weights = slots + at[4], end = weights + at[4];
        list.routes.assign(rows, slots);
        list.slot.assign(slots, weights);
        for (auto weight = weights; weight != end; ++weight)
          list.weight.push_back(std::bit_cast<float>(*weight));
        at = end;
      }
    for (std::size_t s = 0; s < sources_.size(); ++s)
      for (std::size_t l = 0; l < layers(); ++l) {
        const std::size_t c = selection_.cell(m, l);
        CellSchedule& cell = schedules_[s].cells[c];
        cell.micro_batch = selection_.micro_batches[m];
        cell.layer = selection_.layers[l];
        cell.send = std::move(source_cells_[s][c].send);
        cell.receive = build_receive_list(lists.at({sources_[s].rank, l}),
                                          plan_.header.slots_per_rank + plan_.header.replica_slots);
        const Holders held = holders(m, l, schedules_[s].group());
        if (!options_.evenly) cell.pushes = pushes_of(held, sources_[s].rank, options_.max_fan_out);
        compare_load(cell, sources_[s].rank, plan_cell(m, l));
      }
  }

  void compare_load(const CellSchedule& cell, RankId rank, std::int64_t plan_cell) const {
    if (cells_.rank_tokens.empty() || options_.evenly) return;
    const auto world = static_cast<std::size_t>(topology().world());
    const std::int64_t said =
        cells_.rank_tokens[static_cast<std::size_t>(plan_cell - cells_.cells.first) * world + rank.index()];
    if (said == cell.receive.assignments()) return;
    throw_input({.where = "plan, micro-batch " + std::to_string(cell.micro_batch.value()) + ", layer " +
                          std::to_string(cell.layer.value()) + ", rank " + std::to_string(rank.value()),
                 .expected = std::to_string(said) + " assignments, as metrics/rank_tokens says",
                 .found = std::to_string(cell.receive.assignments()) + " by its splits",
                 .advice = "the plan was changed; plan again"});
  }

  const Comm& comm_;
  const Plan& plan_;
  const PlanCells& cells_;
  std::span<const SourceRoutes> sources_;
  const Selection& selection_;
  const ScheduleOptions& options_;
  std::vector<std::int64_t> first_;
  std::vector<std::vector<SourceCell>> source_cells_;  // by carried rank, by selected cell
  std::vector<RankSchedule> schedules_;
};

}  // namespace

std::vector<RankId> carried_ranks(const Topology& topology, int process, int processes) {
  std::vector<RankId> ranks;
  for (int r = process; r < topology.world(); r += processes) ranks.emplace_back(r);
  return ranks;
}

std::vector<RankSchedule> build_schedules(const Comm& comm, const Plan& plan, const PlanCells& cells,
                                          std::span<const SourceRoutes> sources, const Selection& selection,
                                          const ScheduleOptions& options) {
  return Setup(comm, plan, cells, sources, selection, options).run();
}

Plan static_plan(const Plan& plan) {
  Plan result = plan;
  PlanHeader& header = result.header;
  header.policy = "static";
  header.slots_per_rank = home_slots(header.num_experts, header.topology.ep_size);
  header.replica_slots = 0;
  header.physical_slots = header.slots_per_rank;
  result.placement = Placement::contiguous(header.num_layers(), header.num_experts, header.topology.ep_size);
  result.slot_expert = initial_slots(header.num_layers(), header.num_experts, header.topology.ep_size);
  return result;
}

PlanCells empty_cells(Range cells) {
  PlanCells result;
  result.cells = cells;
  result.copy_offset.assign(static_cast<std::size_t>(cells.size()) + 1, 0);
  result.split_offset = result.copy_offset;
  return result;
}

}  // namespace relibra::exec
