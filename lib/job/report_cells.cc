#include "lib/job/report_cells.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lib/job/report_pack.h"

namespace relibra {
namespace {

using Json = nlohmann::ordered_json;

std::size_t product(std::initializer_list<int> sizes) {
  std::size_t all = 1;
  for (int size : sizes) all *= static_cast<std::size_t>(size);
  return all;
}

}  // namespace

std::vector<ExpertPart> expert_parts(std::span<const Copy> copies, std::span<const SplitEntry> split) {
  std::map<std::pair<ExpertId, RankId>, ExpertPart> parts;
  for (const Copy& copy : copies)
    parts[{copy.expert, copy.rank}] = {.expert = copy.expert, .rank = copy.rank, .slot = copy.slot};
  for (const SplitEntry& entry : split) {
    ExpertPart& part =
        parts.try_emplace({entry.expert, entry.rank}, ExpertPart{entry.expert, entry.rank}).first->second;
    part.tokens += entry.tokens;
  }
  std::vector<ExpertPart> list;
  for (const auto& [where, part] : parts) list.push_back(part);
  return list;
}

ReportTables::ReportTables(const PlanHeader& h)
    : before(product({h.num_micro_batches, h.num_layers(), h.topology.world()})),
      after(before.size()),
      expert_tokens(product({h.num_layers(), h.num_experts})),
      expert_copies(expert_tokens.size()),
      copy_routes(product({h.num_layers(), h.topology.ep_size, h.topology.ep_size})),
      rows(product({h.num_micro_batches})) {}

void ReportTables::gather(const Comm& comm) {
  for (auto* table : {&before, &after, &expert_tokens, &expert_copies, &copy_routes, &rows})
    comm.sum_in_place(std::span(*table));
}

void ReportCells::add_loads(const PlanCells& cells, std::span<const std::int64_t> before,
                            std::span<const std::int64_t> after) {
  const auto at = cells.cells.first * plan_.header.topology.world();
  std::copy(before.begin(), before.end(), tables.before.begin() + at);
  std::copy(after.begin(), after.end(), tables.after.begin() + at);
}

void ReportCells::add_copies(const PlanCells& cells) {
  const PlanHeader& h = plan_.header;
  const auto experts = static_cast<std::size_t>(h.num_experts);
  const auto ranks = static_cast<std::size_t>(h.topology.ep_size);
  for (std::int64_t cell = cells.cells.first; cell < cells.cells.last; ++cell) {
    const LayerId l(cell % h.num_layers());
    for (const Copy& copy : cells.copies_of(cell)) {
      ++tables.expert_copies[l.index() * experts + copy.expert.index()];
      const auto from = plan_.placement.home(l, copy.expert).index();
      const auto to = h.topology.ep_rank_of(copy.rank).index();
      ++tables.copy_routes[(l.index() * ranks + from) * ranks + to];
    }
  }
}

void ReportCells::add_detail(const PlanCells& cells, const Json& counts) {
  std::vector<std::int64_t> in_cell, expert, rank, slot, tokens;
  for (std::int64_t cell = cells.cells.first; cell < cells.cells.last; ++cell) {
    const auto parts = expert_parts(cells.copies_of(cell), cells.split_of(cell));
    in_cell.push_back(std::ssize(parts));
    for (const ExpertPart& part : parts) {
      expert.push_back(part.expert.value());
      rank.push_back(part.rank.value());
      slot.push_back(part.slot + 1);
      tokens.push_back(part.tokens);
    }
  }
  const Json document = {{"parts",
                          {{"cell", pack_integers(in_cell)},
                           {"expert", pack_integers(expert)},
                           {"rank", pack_integers(rank)},
                           {"slot", pack_integers(slot)},
                           {"tokens", pack_integers(tokens)}}},
                         {"counts", counts}};
  detail.push_back({cells.cells.first / std::max(1, plan_.header.num_layers()), document.dump()});
}

void ReportCells::micro_batch(const PlanCells& cells, MicroBatchRecount& recount) {
  using Side = MicroBatchRecount::Side;
  const PlanHeader& h = plan_.header;
  add_loads(cells, recount.rank_tokens(Side::before), recount.rank_tokens(Side::after));
  add_copies(cells);
  tables.rows[recount.micro_batch().index()] = recount.rows();
  std::vector<std::int64_t> counts;
  for (LayerId l : all<LayerId>(h.num_layers()))
    for (GroupId g : all<GroupId>(h.topology.ep_groups)) {
      const auto of_group = recount.expert_tokens(l, g);
      counts.insert(counts.end(), of_group.begin(), of_group.end());
      for (std::size_t e = 0; e < of_group.size(); ++e)
        tables.expert_tokens[l.index() * of_group.size() + e] += of_group[e];
    }
  add_detail(cells, pack_integers(counts));
  sample_recount(plan_, cells, recount, samples);
}

void ReportCells::tables_of(const PlanCells& cells) {
  add_loads(cells, cells.rank_tokens_static, cells.rank_tokens);
  add_copies(cells);
  add_detail(cells, nullptr);
  sample_cells(plan_, cells, cells.rank_tokens_static, cells.rank_tokens, samples);
}

}  // namespace relibra
