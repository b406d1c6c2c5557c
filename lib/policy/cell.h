#pragma once
// What policies share inside a step: the loads of one domain of a cell, and the cell's plan put together from
// what was chosen domain by domain.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/model/counts.h"
#include "lib/model/plan.h"
#include "lib/planning/replicate.h"

namespace relibra {

/// Consecutive ranks of one EP group among which copies may be made, with their experts' loads in one cell.
///
/// Example: P = 4, G = 2, E = 4 with homes 0 0 1 2, domain 0 of group 0: ranks 0 and 1, expert = {0, 1, 2},
/// home = {0, 0, 1}.
struct CellDomain {
  GroupId group;
  EpRankId first;  ///< rank 0 of the domain
  int ranks = 0;
  std::vector<std::int32_t> expert;  ///< (experts) ids in the layer, ascending, of those at home here
  std::vector<std::int32_t> home;    ///< (experts) rank in the domain
  std::vector<std::int64_t> load;    ///< (experts) assignments from all sources of the group

  DomainLoad loads() const { return {ranks, home, load}; }
};

/// The domains of `ranks` ranks each (a divisor of P) of one EP group. `load` (E), `home` (E).
std::vector<CellDomain> group_domains(std::span<const std::int64_t> load, GroupId group, int ep_size,
                                      std::span<const EpRankId> home, int ranks);

/// Those of all EP groups of a cell, group by group.
std::vector<CellDomain> cell_domains(const CellCounts& counts, const Topology& topology,
                                     std::span<const EpRankId> home, int ranks);

/// Appends copies (slots unset) and split of one domain; `quotas` as replicate() gives them.
void append_quotas(const CellDomain& domain, std::span<const Quota> quotas, const CellCounts& counts,
                   const Topology& topology, CellPlan& plan);

/// Sorts copies and split as CellPlan asks (which is quickest where they were appended in that order), and
/// gives every copy the lowest free slot of its rank by ascending expert.
void finish_cell(CellPlan& plan, const Topology& topology);

}  // namespace relibra
