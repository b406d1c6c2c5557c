#include "lib/planning/replicate.h"

#include <algorithm>

#include "lib/planning/copy_build.h"
#include "lib/planning/copy_split.h"

namespace relibra {
namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

// The most that each rank can compute whatever the copies: its own load and the V largest foreign experts.
std::vector<std::int64_t> most_per_rank(const DomainLoad& domain, int slots) {
  std::vector<std::int32_t> heaviest(domain.load.size());
  for (std::size_t e = 0; e < heaviest.size(); ++e) heaviest[e] = static_cast<std::int32_t>(e);
  std::sort(heaviest.begin(), heaviest.end(),
            [&](std::int32_t a, std::int32_t b) { return domain.load[at(a)] > domain.load[at(b)]; });
  std::vector<std::int64_t> most(at(domain.ranks), 0);
  for (std::size_t e = 0; e < domain.load.size(); ++e) most[at(domain.home[e])] += domain.load[e];
  for (int r = 0; r < domain.ranks; ++r) {
    int free = slots;
    for (std::size_t k = 0; k < heaviest.size() && free > 0; ++k)
      if (domain.home[at(heaviest[k])] != r) {
        most[at(r)] += domain.load[at(heaviest[k])];
        --free;
      }
  }
  return most;
}

// Smallest T in [low, high] that `reaches`, which must hold at high and be monotone or nearly so.
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

std::int64_t with_tolerance(std::int64_t target, double tolerance) {
  return target + static_cast<std::int64_t>(static_cast<double>(target) * tolerance);
}

// Takes away copies, the least used first, while no rank need go above `limit`.
void drop_copies(std::int64_t limit, CopySplit& split) {
  std::vector<std::pair<std::int64_t, int>> order;
  for (std::size_t i = 0; i < split.items().size(); ++i)
    if (split.items()[i].rank >= 0) order.push_back({split.items()[i].tokens, static_cast<int>(i)});
  std::sort(order.begin(), order.end());
  for (const auto& [tokens, i] : order) {
    CopySplit without = split;
    without.remove(i);
    if (without.relieve(limit)) split = std::move(without);
  }
}

}  // namespace

std::int64_t replica_bound(const DomainLoad& domain, int slots) {
  const auto most = most_per_rank(domain, slots);
  std::int64_t total = 0, highest = 0;
  for (std::int64_t load : domain.load) total += load;
  for (std::int64_t m : most) highest = std::max(highest, m);
  return bisect((total + domain.ranks - 1) / domain.ranks, highest, [&](std::int64_t target) {
    std::int64_t sum = 0;
    for (std::int64_t m : most) sum += std::min(target, m);
    return sum >= total;
  });
}

DomainPlan replicate(const DomainLoad& domain, const ReplicateOptions& options) {
  DomainPlan plan;
  plan.bound = replica_bound(domain, options.slots);
  CopyBuilder builder;
  builder.reset(domain, options);
  CopySplit split, best;
  best.reset(domain);
  std::int64_t reached = best.max_load();
  const auto reaches = [&](std::int64_t target) {
    if (reached <= target) return true;
    if (!builder.build(target, split)) return false;
    const std::int64_t load = split.tighten();
    if (load < reached) {
      reached = load;
      best = split;
    }
    return true;
  };
  bisect(plan.bound, best.max_load(), reaches);
  drop_copies(with_tolerance(reached, options.tolerance), best);
  plan.max_load = best.tighten();
  plan.quotas = best.quotas();
  return plan;
}

std::int64_t best_split_bound(const DomainLoad& domain, std::span<const std::vector<std::int32_t>> holders) {
  CopySplit split;
  split.reset(domain);
  for (std::size_t e = 0; e < holders.size(); ++e)
    for (std::size_t k = 1; k < holders[e].size(); ++k) split.add(static_cast<int>(e), holders[e][k], 0);
  return split.tighten();
}

std::vector<Quota> split_given_copies(const DomainLoad& domain, std::span<const Quota> copies) {
  CopySplit split;
  split.reset(domain);
  for (const Quota& copy : copies) split.add(copy.expert, copy.rank, 0);
  split.tighten();
  std::vector<Quota> result(copies.begin(), copies.end());
  for (std::size_t i = 0; i < result.size(); ++i) result[i].tokens = split.items()[i].tokens;
  return result;
}

}  // namespace relibra
