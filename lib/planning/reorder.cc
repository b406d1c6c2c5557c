#include "lib/planning/reorder.h"

#include <algorithm>
#include <numeric>

#include "lib/model/placement.h"
#include "lib/planning/anneal.h"
#include "lib/planning/bins.h"

namespace relibra {
namespace {

/// The parts of one call that every step of it needs.
struct Task {
  const LayerLoads& loads;
  const Topology& topology;
  std::span<const EpRankId> previous;
  const ReorderOptions& options;
  int slots;  ///< home slots a rank

  bool priced() const { return options.move_cost > 0; }
  int domains() const { return topology.domains_per_group(); }
  int ranks() const { return topology.domain_size(); }
  /// Where the search starts: `before` if leaving it costs, else anywhere.
  std::span<const std::int32_t> fixed(std::span<const std::int32_t> before) const {
    return priced() ? before : std::span<const std::int32_t>{};
  }
  int domain_before(std::int32_t e) const {
    return topology.domain_of(previous[static_cast<std::size_t>(e)]);
  }
};

/// move_cost / P in units of the search's objective, the mean cell's load of a rank.
double price_of(const Task& task, const ItemLoads& loads) {
  if (loads.cells() == 0) return 0;
  const double total =
      static_cast<double>(std::accumulate(task.loads.data.begin(), task.loads.data.end(), std::int64_t{0}));
  return task.options.move_cost * loads.cells() / total;
}

/// Domain of every expert.
std::vector<std::int32_t> choose_domains(const Task& task) {
  std::vector<std::int32_t> experts(static_cast<std::size_t>(task.loads.experts)), before(experts.size());
  std::iota(experts.begin(), experts.end(), 0);
  if (task.domains() == 1) return before;
  for (std::int32_t e : experts) before[static_cast<std::size_t>(e)] = task.domain_before(e);
  const ItemLoads loads(task.loads, experts, task.domains());
  const int capacity = task.ranks() * task.slots;
  const BinObjective objective{.price = price_of(task, loads), .before = before};
  const auto start = largest_first(loads, task.domains(), capacity, task.fixed(before));
  auto domain =
      search_bins(loads, task.domains(), capacity, objective, start, task.options.moves, task.options.seed);
  if (!task.priced()) match_bins(domain, before, task.domains());
  return domain;
}

/// Ranks of the experts of one domain, 0..ranks-1.
std::vector<std::int32_t> choose_ranks(const Task& task, int domain, std::span<const std::int32_t> experts) {
  std::vector<std::int32_t> before;
  for (std::int32_t e : experts)
    before.push_back(task.domain_before(e) == domain
                         ? task.previous[static_cast<std::size_t>(e)].value() % task.ranks()
                         : -1);
  const ItemLoads loads(task.loads, experts, task.ranks());
  const BinObjective objective{.price = price_of(task, loads), .before = before};
  auto rank = largest_first(loads, task.ranks(), task.slots, task.fixed(before));
  if (task.priced() && task.options.copies) return rank;  // nothing that a move inside the domain could gain
  const std::int64_t moves = task.domains() == 1 ? task.options.moves : 0;
  rank = search_bins(loads, task.ranks(), task.slots, objective, rank, moves, task.options.seed);
  if (!task.priced()) match_bins(rank, before, task.ranks());
  return rank;
}

bool fits(std::span<const EpRankId> home, int ep_size, int slots) {
  std::vector<int> held(static_cast<std::size_t>(ep_size));
  for (EpRankId r : home)
    if (++held[r.index()] > slots) return false;
  return true;
}

}  // namespace

double reorder_cost(const LayerLoads& loads, const Topology& topology, std::span<const EpRankId> previous,
                    std::span<const EpRankId> home, const ReorderOptions& options) {
  const int ranks = options.copies ? topology.domain_size() : 1;
  std::vector<std::int64_t> load(static_cast<std::size_t>(topology.ep_size / ranks));
  std::int64_t slowest = 0;
  for (std::size_t at = 0; at < loads.data.size(); at += home.size()) {
    std::fill(load.begin(), load.end(), 0);
    for (std::size_t e = 0; e < home.size(); ++e)
      load[static_cast<std::size_t>(home[e].value() / ranks)] += loads.data[at + e];
    slowest += *std::max_element(load.begin(), load.end());
  }
  int moved = 0;
  for (std::size_t e = 0; e < home.size(); ++e) moved += home[e] != previous[e];
  return static_cast<double>(slowest) / ranks + options.move_cost / topology.ep_size * moved;
}

ReorderResult reorder_experts(const LayerLoads& loads, const Topology& topology,
                              std::span<const EpRankId> previous, const ReorderOptions& options) {
  const Task task{loads, topology, previous, options, home_slots(loads.experts, topology.ep_size)};
  const auto domain_of = choose_domains(task);
  ReorderResult result{.home = std::vector<EpRankId>(domain_of.size()), .moves = options.moves};
  for (int d = 0; d < task.domains(); ++d) {
    std::vector<std::int32_t> experts;
    for (std::int32_t e = 0; e < loads.experts; ++e)
      if (domain_of[static_cast<std::size_t>(e)] == d) experts.push_back(e);
    const auto rank = choose_ranks(task, d, experts);
    for (std::size_t i = 0; i < experts.size(); ++i)
      result.home[static_cast<std::size_t>(experts[i])] = EpRankId(d * task.ranks() + rank[i]);
  }
  if (task.priced() && fits(previous, topology.ep_size, task.slots) &&
      reorder_cost(loads, topology, previous, result.home, options) >=
          reorder_cost(loads, topology, previous, previous, options))
    result.home.assign(previous.begin(), previous.end());
  return result;
}

}  // namespace relibra
