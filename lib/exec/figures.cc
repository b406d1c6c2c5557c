#include "lib/exec/figures.h"

#include <algorithm>

namespace relibra::exec {
namespace {

CellFigures figures_of(const RankSchedule& schedule, const CellSchedule& cell) {
  const Topology& t = schedule.topology;
  CellFigures f;
  f.tokens = cell.send.tokens();
  f.sent_rows = cell.send.rows();
  f.received_rows = cell.receive.rows();
  for (EpRankId p : all<EpRankId>(t.ep_size)) {
    const RankId peer = t.rank_of(schedule.group(), p);
    if (peer == schedule.rank) continue;
    const std::int64_t sent = cell.send.offset[p.index() + 1] - cell.send.offset[p.index()];
    f.sent_away += sent;
    if (t.node_of(peer) != t.node_of(schedule.rank)) f.sent_to_nodes += sent;
    f.received_away += cell.receive.offset[p.index() + 1] - cell.receive.offset[p.index()];
  }
  f.assignments = cell.receive.assignments();
  f.groups = static_cast<std::int64_t>(cell.receive.groups.size());
  f.pushed = static_cast<std::int64_t>(cell.pushes.sends[0].size() + cell.pushes.sends[1].size());
  f.relayed = static_cast<std::int64_t>(cell.pushes.sends[1].size());
  f.copies = static_cast<std::int64_t>(cell.pushes.return_sends.size());
  f.gradients = static_cast<std::int64_t>(cell.pushes.return_receives.size());
  return f;
}

}  // namespace

std::vector<CellFigures> figures_of(const RankSchedule& schedule) {
  std::vector<CellFigures> figures;
  for (const CellSchedule& cell : schedule.cells) figures.push_back(figures_of(schedule, cell));
  return figures;
}

std::vector<CellFigures> gather_figures(const Comm& comm, std::span<const RankSchedule> carried, int world) {
  std::vector<CellFigures> mine;
  for (const RankSchedule& schedule : carried) {
    const auto of_rank = figures_of(schedule);
    mine.insert(mine.end(), of_rank.begin(), of_rank.end());
  }
  const auto joined = comm.gather_all(std::span<const CellFigures>(mine));
  const std::size_t cells = joined.size() / static_cast<std::size_t>(world);
  // Processes carry ranks process, process + size, ...: back into rank order.
  std::vector<CellFigures> ordered(joined.size());
  std::size_t at = 0;
  for (int process = 0; process < comm.size(); ++process)
    for (int r = process; r < world; r += comm.size(), at += cells)
      std::copy_n(joined.begin() + static_cast<std::ptrdiff_t>(at), cells,
                  ordered.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(r) * cells));
  return ordered;
}

}  // namespace relibra::exec
