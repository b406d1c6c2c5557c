#include "lib/planning/copy_build.h"

#include <algorithm>

namespace relibra {
namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

void CopyBuilder::reset(const DomainLoad& domain, const ReplicateOptions& options) {
  domain_ = domain;
  options_ = options;
  const std::size_t ranks = at(domain.ranks);
  first_.assign(ranks + 1, 0);
  for (std::int32_t home : domain.home) ++first_[at(home) + 1];
  for (std::size_t r = 0; r < ranks; ++r) first_[r + 1] += first_[r];
  last_.assign(first_.begin(), first_.end() - 1);
  by_rank_.resize(domain.load.size());
  for (std::size_t e = 0; e < domain.load.size(); ++e)
    by_rank_[at(last_[at(domain.home[e])]++)] = static_cast<std::int32_t>(e);
  const int most = (domain.ranks - 1) * options.slots;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto begin = by_rank_.begin() + first_[r];
    const int keep = std::min(last_[r] - first_[r], most);
    std::partial_sort(begin, begin + keep, by_rank_.begin() + last_[r], [&](std::int32_t a, std::int32_t b) {
      return domain.load[at(a)] != domain.load[at(b)] ? domain.load[at(a)] > domain.load[at(b)] : a < b;
    });
    last_[r] = first_[r] + keep;
  }
}

int CopyBuilder::neediest(const CopySplit& split, std::int64_t target) const {
  int best = -1;
  for (int r = 0; r < split.ranks(); ++r)
    if (split.load(r) < target && split.copies_on(r) < options_.slots &&
        (best < 0 || split.load(r) < split.load(best)))
      best = r;
  return best;
}

// Gives `rank` a copy of the expert that fills it best: of those that fill it wholly without leaving their
// home in need, the smallest; else the one that brings most.
bool CopyBuilder::feed(int rank, std::int64_t target, CopySplit& split) const {
  const std::int64_t need = target - split.load(rank);
  int best = -1;
  std::int64_t best_amount = 0, best_rest = 0;
  for (int donor = 0; donor < split.ranks(); ++donor) {
    const std::int64_t over = split.load(donor) - target;
    if (over <= 0) continue;
    if (options_.max_fan_out > 0 && split.copies_of_home(donor) >= options_.max_fan_out) continue;
    const bool refillable = split.copies_on(donor) < options_.slots;
    for (std::int32_t e : heaviest(donor)) {
      if (split.holds(e, rank)) continue;
      const std::int64_t amount = std::min({need, split.at_home(e), refillable ? need : over});
      const std::int64_t rest = split.at_home(e);
      if (amount > best_amount || (amount == best_amount && amount > 0 && rest < best_rest)) {
        best = e;
        best_amount = amount;
        best_rest = rest;
      }
    }
  }
  if (best < 0) return false;
  split.add(best, rank, best_amount);
  return true;
}

bool CopyBuilder::build(std::int64_t target, CopySplit& split) const {
  split.reset(domain_);
  while (split.max_load() > target) {
    const int rank = neediest(split, target);
    if (rank < 0 || !feed(rank, target, split)) return false;
  }
  return true;
}

}  // namespace relibra
