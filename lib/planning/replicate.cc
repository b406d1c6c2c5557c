#include "lib/planning/replicate.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "lib/planning/copy_build.h"
#include "lib/planning/copy_split.h"

namespace relibra {
namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

/// Memory that calls of one thread use again.
struct Scratch {
  std::vector<std::int64_t> most;                        // (ranks)
  std::vector<std::pair<std::int64_t, int>> candidates;  // load and home, or tokens and item
  CopyBuilder builder;
  CopySplit split, best;
};

Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

// The most that each rank can compute whatever the copies, its own load and the V largest foreign experts, in
// `most`. Only the V largest experts of each home can be among those.
void most_per_rank(const DomainLoad& domain, int slots, Scratch& s) {
  const std::size_t ranks = at(domain.ranks), kept = at(slots);
  s.most.assign(ranks, 0);
  s.candidates.assign(ranks * kept, {0, 0});
  for (std::size_t e = 0; e < domain.load.size(); ++e) {
    const std::size_t home = at(domain.home[e]);
    s.most[home] += domain.load[e];
    std::pair entry(domain.load[e], domain.home[e]);
    for (auto* top = &s.candidates[home * kept]; top != s.candidates.data() + (home + 1) * kept; ++top)
      if (entry.first > top->first) std::swap(entry, *top);
  }
  std::sort(s.candidates.begin(), s.candidates.end(), std::greater<>());
  for (std::size_t r = 0; r < ranks; ++r) {
    std::size_t free = kept;
    for (auto top = s.candidates.begin(); top != s.candidates.end() && free > 0; ++top)
      if (at(top->second) != r) {
        s.most[r] += top->first;
        --free;
      }
  }
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
  most_per_rank(domain, slots, s);
  std::int64_t total = 0;
  for (std::int64_t load : domain.load) total += load;
  const std::int64_t mean = (total + domain.ranks - 1) / domain.ranks;
  const auto covered = [&](std::int64_t target) {
    std::int64_t sum = 0;
    for (std::int64_t m : s.most) sum += std::min(target, m);
    return sum >= total;
  };
  if (covered(mean)) return mean;
  return bisect(mean + 1, *std::max_element(s.most.begin(), s.most.end()), covered);
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

// Takes away copies, the least used first, while no rank need go above `limit`.
void drop_copies(std::int64_t limit, Scratch& s) {
  s.candidates.clear();
  for (const CopySplit::Item& item : s.split.items())
    s.candidates.push_back({item.tokens, static_cast<int>(s.candidates.size())});
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
  std::int64_t limit = with_tolerance(std::max(plan.bound, options.enough), options.tolerance);
  if (!s.builder.build_grouped(limit, s.split) && !s.builder.build(limit, s.split)) {
    const std::int64_t reached = search_upward(limit, domain, s);
    limit = with_tolerance(std::max(reached, options.enough), options.tolerance);
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
