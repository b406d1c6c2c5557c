#include "lib/policy/cell.h"

#include <algorithm>

#include "lib/planning/split.h"

namespace relibra {

std::vector<CellDomain> cell_domains(const CellCounts& counts, const Topology& topology,
                                     std::span<const EpRankId> home, int ranks) {
  std::vector<CellDomain> domains;
  const int per_group = topology.ep_size / ranks;
  for (GroupId g : all<GroupId>(topology.ep_groups)) {
    const std::size_t begin = domains.size();
    for (int d = 0; d < per_group; ++d) domains.push_back({g, EpRankId(d * ranks), ranks, {}, {}, {}});
    for (ExpertId e : all<ExpertId>(counts.experts())) {
      const int at = home[e.index()].value();
      CellDomain& domain = domains[begin + static_cast<std::size_t>(at / ranks)];
      domain.expert.push_back(e.value());
      domain.home.push_back(at % ranks);
      domain.load.push_back(counts.total(e, g, topology));
    }
  }
  return domains;
}

void append_quotas(const CellDomain& domain, std::span<const Quota> quotas, const CellCounts& counts,
                   const Topology& topology, CellPlan& plan) {
  const auto global = [&](std::int32_t rank) {
    return topology.rank_of(domain.group, EpRankId(domain.first.value() + rank));
  };
  std::vector<HolderQuota> holders;
  for (std::size_t i = 0; i < quotas.size();) {
    const auto e = static_cast<std::size_t>(quotas[i].expert);
    const ExpertId expert(domain.expert[e]);
    std::int64_t left = domain.load[e];
    holders.assign(1, {global(domain.home[e]), 0});
    for (; i < quotas.size() && static_cast<std::size_t>(quotas[i].expert) == e; ++i) {
      holders.push_back({global(quotas[i].rank), quotas[i].tokens});
      left -= quotas[i].tokens;
      plan.copies.push_back({expert, holders.back().rank, 0});
    }
    holders.front().tokens = left;
    const auto sources = counts.of(expert).subspan(topology.rank_of(domain.group, EpRankId(0)).index(),
                                                   static_cast<std::size_t>(topology.ep_size));
    split_by_source(expert, domain.group, topology, sources, holders, plan.split);
  }
}

void finish_cell(CellPlan& plan, const Topology& topology) {
  std::sort(plan.copies.begin(), plan.copies.end());
  std::vector<std::int32_t> used(static_cast<std::size_t>(topology.world()), 0);
  for (Copy& copy : plan.copies) copy.slot = used[copy.rank.index()]++;
  if (!std::is_sorted(plan.split.begin(), plan.split.end())) std::sort(plan.split.begin(), plan.split.end());
}

}  // namespace relibra
