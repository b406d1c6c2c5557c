#include "lib/planning/replicate.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "lib/planning/copy_build.h"
#include "lib/planning/copy_repair.h"
#include "lib/planning/copy_split.h"

namespace relibra {
namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

/// Memory that calls of one thread use again.
struct Scratch {
  std::vector<std::int64_t> own, most;                   // (ranks)
  std::vector<std::int64_t> loads;                       // experts of some ranks
  std::vector<std::int32_t> order, member;               // (ranks)
  std::vector<std::pair<std::int64_t, int>> candidates;  // load and home, or tokens and item
  CopyBuilder builder;
  CopyRepair repair;
  CopySplit split, best;
};

Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

// The V largest experts of each home, as (load, home), in `candidates`, and the ranks' own loads in `own`.
void largest_of_homes(const DomainLoad& domain, int slots, Scratch& s) {
  const std::size_t ranks = at(domain.ranks), kept = at(slots);
  s.own.assign(ranks, 0);
  s.candidates.assign(ranks * kept, {0, 0});
  for (std::size_t e = 0; e < domain.load.size(); ++e) {
    const std::size_t home = at(domain.home[e]);
    s.own[home] += domain.load[e];
    std::pair entry(domain.load[e], domain.home[e]);
    for (auto* top = &s.candidates[home * kept]; top != s.candidates.data() + (home + 1) * kept; ++top)
      if (entry.first > top->first) std::swap(entry, *top);
  }
}

// The most that each rank can compute whatever the copies, its own load and the V largest foreign experts.
void most_per_rank(int slots, Scratch& s) {
  s.most = s.own;
  for (std::size_t r = 0; r < s.most.size(); ++r) {
    int free = slots;
    for (auto top = s.candidates.begin(); top != s.candidates.end() && free > 0; ++top)
      if (at(top->second) != r) {
        s.most[r] += top->first;
        --free;
      }
  }
}

// Sum of the `count` largest experts whose home is a member.
std::int64_t largest_of_members(const DomainLoad& domain, std::size_t count, Scratch& s) {
  s.loads.clear();
  for (std::size_t e = 0; e < domain.load.size(); ++e)
    if (s.member[at(domain.home[e])]) s.loads.push_back(domain.load[e]);
  count = std::min(count, s.loads.size());
  const auto end = s.loads.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(s.loads.begin(), end, s.loads.end(), std::greater<>());
  return std::accumulate(s.loads.begin(), end, std::int64_t{0});
}

// The k most loaded ranks, k = 1 .., keep what (ranks - k) * slots copies of their experts cannot take away;
// `bound` raised by that. The V largest of each home mostly show that it is not, without a look at the rest.
std::int64_t raised_by_most_loaded(const DomainLoad& domain, int slots, std::int64_t bound, Scratch& s) {
  const std::size_t ranks = s.own.size();
  s.order.resize(ranks);
  std::iota(s.order.begin(), s.order.end(), 0);
  std::sort(s.order.begin(), s.order.end(), [&](int a, int b) { return s.own[at(a)] > s.own[at(b)]; });
  s.member.assign(ranks, 0);
  std::int64_t load = 0;
  for (std::size_t k = 1; k <= ranks; ++k) {
    load += s.own[at(s.order[k - 1])];
    s.member[at(s.order[k - 1])] = 1;
    const auto size = static_cast<std::int64_t>(k);
    const std::size_t copies = (ranks - k) * at(slots);
    std::int64_t leaves = 0, excess = load - size * bound;
    std::size_t counted = 0;
    for (auto top = s.candidates.begin(); top != s.candidates.end() && leaves < excess && counted < copies;
         ++top)
      if (s.member[at(top->second)]) {
        leaves += top->first;
        ++counted;
      }
    if (leaves >= excess) continue;
    leaves = largest_of_members(domain, copies, s);
    if (leaves < excess) bound = (load - leaves + size - 1) / size;
  }
  return bound;
}

// Smallest T in [low, high] that `reaches`, which holds at high and is monotone, or nearly so.
template <class Reaches>
std::int64_t bisect(std::int64_t low, std::int64_t high, Reaches reaches) {
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (reaches(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

std::int64_t bound_of(const DomainLoad& domain, int slots, Scratch& s) {
  largest_of_homes(domain, slots, s);
  std::sort(s.candidates.begin(), s.candidates.end(), std::greater<>());
  most_per_rank(slots, s);
  const std::int64_t total = std::accumulate(s.own.begin(), s.own.end(), std::int64_t{0});
  const auto covered = [&](std::int64_t target) {
    std::int64_t sum = 0;
    for (std::int64_t m : s.most) sum += std::min(target, m);
    return sum >= total;
  };
  const std::int64_t mean = (total + domain.ranks - 1) / domain.ranks;
  const std::int64_t low = raised_by_most_loaded(domain, slots, mean, s);
  if (covered(low)) return low;
  return bisect(low + 1, *std::max_element(s.most.begin(), s.most.end()), covered);
}

std::int64_t with_tolerance(std::int64_t target, double tolerance) {
  return target + static_cast<std::int64_t>(static_cast<double>(target) * tolerance);
}

// The best slowest rank that the construction finds above `low`, where it failed; its copies in s.split.
// First upward in growing steps, since it mostly lies close, then by bisection.
std::int64_t search_upward(std::int64_t low, const DomainLoad& domain, Scratch& s) {
  s.best.reset(domain);
  std::int64_t reached = s.best.max_load();
  const auto reaches = [&](std::int64_t target) {
    if (reached <= target) return true;
    s.builder.build(target, s.split);
    const std::int64_t load = s.split.tighten();
    if (load < reached) {
      reached = load;
      std::swap(s.best, s.split);
    }
    return reached <= target;
  };
  std::int64_t step = std::max<std::int64_t>(1, low / 1024);
  while (!reaches(low + step)) {
    low += step;
    step *= 2;
  }
  bisect(low, low + step, reaches);
  std::swap(s.best, s.split);
  return reached;
}

// Repairs s.split, which reaches `reached`, for targets from `low` up. Worth its time only under a limit of
// fan-out, which the construction knows little of: 3 % above the optimum on average and 0.2 % after this, on
// nodes of 4 ranks that may send one copy or two; without a limit there is nothing left to gain.
std::int64_t improve(std::int64_t low, std::int64_t reached, Scratch& s) {
  for (std::int64_t target = low; target < reached; target += (reached - target + 1) / 2) {
    s.best = s.split;
    s.repair.repair(target, s.best);
    const std::int64_t load = s.best.tighten();
    if (load >= reached) continue;
    reached = load;
    std::swap(s.best, s.split);
  }
  return reached;
}

// Takes away copies, the least used first, while no rank need go above `limit`.
void drop_copies(std::int64_t limit, Scratch& s) {
  s.candidates.clear();
  for (std::size_t i = 0; i < s.split.items().size(); ++i)
    if (s.split.items()[i].rank >= 0)
      s.candidates.push_back({s.split.items()[i].tokens, static_cast<int>(i)});
  std::sort(s.candidates.begin(), s.candidates.end());
  for (const auto& [tokens, item] : s.candidates) s.split.drop(item, limit);
}

}  // namespace

std::int64_t replica_bound(const DomainLoad& domain, int slots) {
  return bound_of(domain, slots, scratch());
}

DomainPlan replicate(const DomainLoad& domain, const ReplicateOptions& options) {
  Scratch& s = scratch();
  DomainPlan plan;
  plan.bound = bound_of(domain, options.slots, s);
  s.builder.reset(domain, options);
  std::int64_t limit = std::max(with_tolerance(plan.bound, options.tolerance), options.enough);
  if (!s.builder.build_grouped(limit, s.split) && !s.builder.build(limit, s.split)) {
    std::int64_t reached = search_upward(limit, domain, s);
    if (options.max_fan_out > 0) {
      s.repair.reset(domain, options);
      reached = improve(limit, reached, s);
    }
    limit = with_tolerance(reached, options.tolerance);
    if (s.builder.build_grouped(limit, s.best) && s.best.copies() < s.split.copies())
      std::swap(s.best, s.split);
  }
  drop_copies(limit, s);
  plan.max_load = s.split.tighten();
  plan.quotas = s.split.quotas();
  return plan;
}

std::int64_t best_split_bound(const DomainLoad& domain, std::span<const std::vector<std::int32_t>> holders) {
  CopySplit& split = scratch().split;
  split.reset(domain);
  for (std::size_t e = 0; e < holders.size(); ++e)
    for (std::size_t k = 1; k < holders[e].size(); ++k) split.add(static_cast<int>(e), holders[e][k], 0);
  return split.tighten();
}

std::vector<Quota> split_given_copies(const DomainLoad& domain, std::span<const Quota> copies) {
  CopySplit& split = scratch().split;
  split.reset(domain);
  for (const Quota& copy : copies) split.add(copy.expert, copy.rank, 0);
  split.tighten();
  std::vector<Quota> result(copies.begin(), copies.end());
  for (std::size_t i = 0; i < result.size(); ++i) result[i].tokens = split.items()[i].tokens;
  return result;
}

}  // namespace relibra
