#include "lib/planning/replicate.h"

#include <algorithm>
#include <utility>

#include "lib/planning/bisect.h"
#include "lib/planning/copy_build.h"
#include "lib/planning/copy_repair.h"
#include "lib/planning/copy_split.h"

namespace relibra {
namespace {

constexpr int kTries = 3;  // of lower_with_as_few; further ones bring little

/// Memory that calls of one thread use again.
struct Scratch {
  std::vector<std::pair<std::int64_t, int>> by_tokens;  // (tokens, item)
  CopyBuilder builder;
  CopyRepair repair;
  CopySplit split, best;
};

Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
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
void drop_copies(std::int64_t limit, CopySplit& split, Scratch& s) {
  s.by_tokens.clear();
  for (std::size_t i = 0; i < split.items().size(); ++i)
    if (split.items()[i].rank >= 0) s.by_tokens.push_back({split.items()[i].tokens, static_cast<int>(i)});
  std::sort(s.by_tokens.begin(), s.by_tokens.end());
  for (const auto& [tokens, item] : s.by_tokens) split.drop(item, limit);
}

// The copies in s.split were the fewest found at some limit, with `load` on the slowest rank; as few may do
// with less. A third of what a tolerance of 1 % gives away comes back so.
std::int64_t lower_with_as_few(std::int64_t low, std::int64_t load, Scratch& s) {
  for (int tries = 0; tries < kTries && low < load; ++tries) {
    const std::int64_t target = low + (load - low) / 2;
    if (s.builder.build_grouped(target, s.best) && s.best.copies() <= s.split.copies()) {
      std::swap(s.best, s.split);
      load = s.split.tighten();
    } else {
      low = target + 1;
    }
  }
  return load;
}

}  // namespace

DomainPlan replicate(const DomainLoad& domain, const ReplicateOptions& options) {
  Scratch& s = scratch();
  DomainPlan plan;
  plan.bound = replica_bound(domain, options.slots);
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
  drop_copies(limit, s.split, s);
  plan.max_load = lower_with_as_few(std::max(plan.bound, options.enough), s.split.tighten(), s);
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
