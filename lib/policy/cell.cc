#include "lib/policy/cell.h"

#include <algorithm>

#include "lib/planning/split.h"

namespace relibra {

std::vector<CellDomain> group_domains(std::span<const std::int64_t> load, GroupId group, int ep_size,
                                      std::span<const EpRankId> home, int ranks) {
  std::vector<CellDomain> domains;
  for (int first = 0; first < ep_size; first += ranks)
    domains.push_back({group, EpRankId(first), ranks, {}, {}, {}});
  for (std::size_t e = 0; e < load.size(); ++e) {
    const int at = home[e].value();
    CellDomain& domain = domains[static_cast<std::size_t>(at / ranks)];
    domain.expert.push_back(static_cast<std::int32_t>(e));
    domain.home.push_back(at % ranks);
    domain.load.push_back(load[e]);
  }
  return domains;
}

std::vector<CellDomain> cell_domains(const CellCounts& counts, const Topology& topology,
                                     std::span<const EpRankId> home, int ranks) {
  std::vector<CellDomain> domains;
  std::vector<std::int64_t> load(static_cast<std::size_t>(counts.experts()));
  for (GroupId g : all<GroupId>(topology.ep_groups)) {
    for (ExpertId e : all<ExpertId>(counts.experts())) load[e.index()] = counts.total(e, g, topology);
    for (CellDomain& domain : group_domains(load, g, topology.ep_size, home, ranks))
      domains.push_back(std::move(domain));
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
