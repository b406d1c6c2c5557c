#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "lib/planning/bisect.h"
#include "lib/planning/replicate.h"

namespace relibra {
namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

/// Memory that calls of one thread use again.
struct Scratch {
  std::vector<std::int64_t> own, most;                   // (ranks)
  std::vector<std::int32_t> order, member;               // (ranks)
  std::vector<std::pair<std::int64_t, int>> candidates;  // (load, home)
  std::vector<std::int64_t> loads;                       // experts of some ranks
};

// The V largest experts of each home, as (load, home), in `candidates`, and the ranks' own loads in `own`.
void largest_of_homes(const DomainLoad& domain, int slots, Scratch& s) {
  const std::size_t ranks = at(domain.ranks), kept = at(slots);
  s.own.assign(ranks, 0);
  s.candidates.assign(ranks * kept, {0, 0});
  for (std::size_t e = 0; e < domain.load.size(); ++e) {
    const std::size_t home = at(domain.home[e]);
    s.own[home] += domain.load[e];
    std::pair entry(domain.load[e], domain.home[e]);
    auto* const first = s.candidates.data() + home * kept;  // null where there are no slots
    for (auto* top = first; top != first + kept; ++top)
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

}  // namespace

std::int64_t replica_bound(const DomainLoad& domain, int slots) {
  thread_local Scratch s;
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

}  // namespace relibra
