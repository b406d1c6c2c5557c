#include "lib/job/plan_cells.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace relibra {
namespace {

/// The four element types that travel when cells change hands.
struct Parcels {
  std::vector<std::vector<std::int64_t>> tables;  ///< a cell: copies, split entries, (W) tokens, (W) static
  std::vector<std::vector<Copy>> copies;
  std::vector<std::vector<SplitEntry>> split;
  std::vector<std::vector<std::int32_t>> transfer;

  explicit Parcels(int ranks) {
    const auto n = static_cast<std::size_t>(ranks);
    tables.resize(n);
    copies.resize(n);
    split.resize(n);
    transfer.resize(n);
  }

  void add(std::size_t to, const PlannedCell& cell, bool transfers) {
    append(tables[to], std::vector{static_cast<std::int64_t>(cell.plan.copies.size()),
                                   static_cast<std::int64_t>(cell.plan.split.size())});
    append(tables[to], cell.rank_tokens);
    append(tables[to], cell.rank_tokens_static);
    append(copies[to], cell.plan.copies);
    append(split[to], cell.plan.split);
    if (transfers) append(transfer[to], cell.transfer);
  }

  void exchange(const Comm& comm) {
    tables = comm.exchange(tables);
    copies = comm.exchange(copies);
    split = comm.exchange(split);
    transfer = comm.exchange(transfer);
  }

  template <class T>
  static void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }
};

/// Reads one rank's parcel from front to back.
struct Cursor {
  std::size_t table = 0, copy = 0, split = 0, transfer = 0;
};

template <class T>
void take(const std::vector<T>& from, std::size_t& at, std::size_t count, std::vector<T>& to) {
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(at),
            from.begin() + static_cast<std::ptrdiff_t>(at + count));
  at += count;
}

}  // namespace

LayerLoads layer_loads(const SequenceCounts& counts, LayerId layer, const SequencePlaces& places,
                       int groups) {
  LayerLoads loads{.micro_batches = places.micro_batches, .groups = groups, .experts = counts.experts()};
  const auto width = static_cast<std::size_t>(loads.experts);
  loads.data.resize(static_cast<std::size_t>(places.micro_batches) * static_cast<std::size_t>(groups) *
                    width);
  for (std::size_t s = 0; s < places.micro_batch.size(); ++s) {
    const auto row = counts.of(layer, static_cast<std::int64_t>(s));
    std::int64_t* to = loads.data.data() +
                       static_cast<std::size_t>(places.micro_batch[s] * groups + places.group[s]) * width;
    for (std::size_t e = 0; e < width; ++e) to[e] += row[e];
  }
  return loads;
}

void add_affinity(const SequenceCounts& counts, LayerId layer, std::span<const EpRankId> home,
                  const SequencePlaces& places, const Topology& topology, std::span<std::int64_t> affinity) {
  const auto nodes = static_cast<std::size_t>(topology.nodes());
  for (std::size_t s = 0; s < places.group.size(); ++s) {
    const auto row = counts.of(layer, static_cast<std::int64_t>(s));
    for (std::size_t e = 0; e < row.size(); ++e)
      affinity[s * nodes + topology.node_of(topology.rank_of(GroupId(places.group[s]), home[e])).index()] +=
          row[e];
  }
}

void load_nodes(const SequenceCounts& counts, LayerId layer, std::span<const EpRankId> home,
                const Topology& topology, std::span<std::int32_t> out) {
  const auto nodes = static_cast<std::size_t>(topology.domains_per_group());
  for (std::int64_t s = 0; s < counts.sequences(); ++s) {
    const auto row = counts.of(layer, s);
    const auto to = out.subspan(static_cast<std::size_t>(s) * nodes, nodes);
    for (std::size_t e = 0; e < row.size(); ++e)
      to[static_cast<std::size_t>(topology.domain_of(home[e]))] += static_cast<std::int32_t>(row[e]);
  }
}

std::vector<std::vector<std::int32_t>> by_micro_batch(const SequencePlaces& places) {
  std::vector<std::vector<std::int32_t>> lists(static_cast<std::size_t>(places.micro_batches));
  for (std::size_t s = 0; s < places.micro_batch.size(); ++s)
    lists[static_cast<std::size_t>(places.micro_batch[s])].push_back(static_cast<std::int32_t>(s));
  return lists;
}

void fill_cell(const SequenceCounts& counts, LayerId layer, std::span<const std::int32_t> sequences,
               const SequencePlaces& places, CellCounts& cell) {
  cell.clear();
  for (const std::int32_t s : sequences) {
    const auto row = counts.of(layer, s);
    const RankId source(places.source_rank[static_cast<std::size_t>(s)]);
    for (std::size_t e = 0; e < row.size(); ++e)
      cell.at(ExpertId(e), source) += static_cast<std::int32_t>(row[e]);
  }
}

void tabulate(const CellCounts& counts, std::span<const EpRankId> home, const Topology& topology,
              PlannedCell& cell) {
  const int experts = counts.experts(), block = home_slots(experts, topology.ep_size);
  const auto world = static_cast<std::size_t>(topology.world()),
             width = static_cast<std::size_t>(topology.ep_size);
  cell.rank_tokens.assign(world, 0);
  cell.rank_tokens_static.assign(world, 0);
  cell.transfer.assign(world * width, 0);
  std::vector<bool> replicated(static_cast<std::size_t>(topology.ep_groups) * home.size());
  for (const Copy& copy : cell.plan.copies)
    replicated[topology.group_of(copy.rank).index() * home.size() + copy.expert.index()] = true;

  for (const ExpertId e : all<ExpertId>(experts))
    for (const GroupId group : all<GroupId>(topology.ep_groups)) {
      const auto tokens = counts.of(e).subspan(group.index() * width, width);
      cell.rank_tokens_static[topology.rank_of(group, EpRankId(e.value() / block)).index()] +=
          std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
      if (replicated[group.index() * home.size() + e.index()]) continue;
      std::int32_t* to_home = &cell.transfer[group.index() * width * width + home[e.index()].index()];
      for (std::size_t p = 0; p < width; ++p) to_home[p * width] += tokens[p];
    }
  for (const SplitEntry& entry : cell.plan.split)
    cell.transfer[entry.source.index() * width + topology.ep_rank_of(entry.rank).index()] += entry.tokens;

  for (std::size_t source = 0; source < world; ++source) {
    const std::size_t group = source / width * width;
    for (std::size_t to = 0; to < width; ++to)
      cell.rank_tokens[group + to] += cell.transfer[source * width + to];
  }
  assert(std::accumulate(cell.rank_tokens.begin(), cell.rank_tokens.end(), std::int64_t{0}) ==
         std::accumulate(cell.rank_tokens_static.begin(), cell.rank_tokens_static.end(), std::int64_t{0}));
}

PlanCells share_out(const Comm& comm, const PlanHeader& header, std::span<const PlannedCell> cells,
                    bool transfers) {
  const int layers = header.num_layers();
  const Range owned = share_of(layers, comm.rank(), comm.size());
  Parcels parcels(comm.size());
  std::size_t next = 0;
  for (const MicroBatchId m : all<MicroBatchId>(header.num_micro_batches))
    for (std::int64_t l = owned.first; l < owned.last; ++l) {
      const int to = owner_of(header.cell(m, LayerId(l)), header.num_cells(), comm.size());
      parcels.add(static_cast<std::size_t>(to), cells[next++], transfers);
    }
  parcels.exchange(comm);

  PlanCells mine{.cells = share_of(header.num_cells(), comm.rank(), comm.size())};
  const auto world = static_cast<std::size_t>(header.topology.world());
  const auto table = transfers ? world * static_cast<std::size_t>(header.topology.ep_size) : 0;
  const auto cells_here = static_cast<std::size_t>(mine.cells.size());
  mine.rank_tokens.reserve(cells_here * world);
  mine.rank_tokens_static.reserve(cells_here * world);
  mine.transfer.reserve(cells_here * table);
  std::vector<Cursor> cursors(static_cast<std::size_t>(comm.size()));
  for (std::int64_t q = mine.cells.first; q < mine.cells.last; ++q) {
    const auto from = static_cast<std::size_t>(owner_of(q % layers, layers, comm.size()));
    Cursor& at = cursors[from];
    const auto copies = static_cast<std::size_t>(parcels.tables[from][at.table]);
    const auto split = static_cast<std::size_t>(parcels.tables[from][at.table + 1]);
    at.table += 2;
    take(parcels.tables[from], at.table, world, mine.rank_tokens);
    take(parcels.tables[from], at.table, world, mine.rank_tokens_static);
    take(parcels.copies[from], at.copy, copies, mine.copies);
    take(parcels.split[from], at.split, split, mine.split);
    take(parcels.transfer[from], at.transfer, table, mine.transfer);
    mine.copy_offset.push_back(static_cast<std::int64_t>(mine.copies.size()));
    mine.split_offset.push_back(static_cast<std::int64_t>(mine.split.size()));
  }
  return mine;
}

}  // namespace relibra
