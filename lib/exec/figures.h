#pragma once
// What a schedule amounts to, cell by cell and rank by rank: for --dry-run, for bandwidths, for people.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/exec/schedule.h"

namespace relibra::exec {

/// Counts of one rank in one cell; forward and backward are alike.
struct CellFigures {
  std::int64_t tokens = 0;         ///< as source
  std::int64_t sent_rows = 0;      ///< to all ranks of the group, itself included
  std::int64_t sent_away = 0;      ///< of them, to other ranks
  std::int64_t sent_to_nodes = 0;  ///< of them, to other nodes
  std::int64_t received_rows = 0, received_away = 0;
  std::int64_t assignments = 0;  ///< computed
  std::int64_t groups = 0;       ///< experts with rows: groups of the GEMMs
  std::int64_t pushed = 0;       ///< experts' weights sent
  std::int64_t relayed = 0;      ///< of them, passed on for another home
  std::int64_t copies = 0;       ///< experts' weights received; as many gradients go back
  std::int64_t gradients = 0;    ///< experts' gradients received
};

std::vector<CellFigures> figures_of(const RankSchedule& schedule);

/// Collective. Figures of all ranks on every process, (W, cells).
std::vector<CellFigures> gather_figures(const Comm& comm, std::span<const RankSchedule> carried, int world);

}  // namespace relibra::exec
