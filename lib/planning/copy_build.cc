#include "lib/planning/copy_build.h"

#include <algorithm>
#include <numeric>

namespace relibra {
namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

void CopyBuilder::reset(const DomainLoad& domain, const ReplicateOptions& options) {
  domain_ = domain;
  options_ = options;
  all_.resize(at(domain.ranks));
  std::iota(all_.begin(), all_.end(), 0);
  first_.assign(at(domain.ranks) + 1, 0);
  for (std::int32_t home : domain.home) ++first_[at(home) + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  next_.assign(first_.begin(), first_.end() - 1);
  by_rank_.resize(domain.load.size());
  for (std::size_t e = 0; e < domain.load.size(); ++e)
    by_rank_[at(next_[at(domain.home[e])]++)] = static_cast<std::int32_t>(e);
}

// Gives `rank` a copy of the expert, from an overloaded rank among `ranks`, that fills it best: of those that
// fill it wholly the smallest; else the one that brings most. A home that has no slot free to be filled by
// later is not driven below the target.
bool CopyBuilder::feed(int rank, std::span<const std::int32_t> ranks, std::int64_t target,
                       CopySplit& split) const {
  const std::int64_t need = target - split.load(rank);
  int best = -1;
  std::int64_t best_amount = 0, best_size = 0;
  for (std::int32_t donor : ranks) {
    const std::int64_t over = split.load(donor) - target;
    if (over <= 0) continue;
    if (options_.max_fan_out > 0 && split.copies_of_home(donor) >= options_.max_fan_out) continue;
    const std::int64_t most = split.copies_on(donor) < options_.slots ? need : std::min(need, over);
    for (std::int32_t e : experts_of(donor)) {
      const std::int64_t size = split.at_home(e), amount = std::min(most, size);
      if (amount < best_amount || amount == 0) continue;
      if (amount == best_amount && size >= best_size) continue;
      if (split.holds(e, rank)) continue;
      best = e;
      best_amount = amount;
      best_size = size;
    }
  }
  if (best < 0) return false;
  split.add(best, rank, best_amount);
  return true;
}

bool CopyBuilder::fill(std::span<const std::int32_t> ranks, std::int64_t target, CopySplit& split) const {
  for (;;) {
    bool over = false;
    int neediest = -1;
    for (std::int32_t r : ranks) {
      over |= split.load(r) > target;
      if (split.load(r) < target && split.copies_on(r) < options_.slots &&
          (neediest < 0 || split.load(r) < split.load(neediest)))
        neediest = r;
    }
    if (!over) return true;
    if (neediest < 0 || !feed(neediest, ranks, target, split)) return false;
  }
}

bool CopyBuilder::build(std::int64_t target, CopySplit& split) {
  split.reset(domain_);
  return fill(all_, target, split);
}

bool CopyBuilder::build_grouped(std::int64_t target, CopySplit& split) {
  split.reset(domain_);
  room_.clear();
  for (std::int32_t r : all_) room_.push_back(target - split.load(r));
  groups_.find(room_);
  rest_.assign(groups_.rest().begin(), groups_.rest().end());
  for (int g = 0; g < groups_.count(); ++g)
    if (const auto group = groups_.group(g); !fill(group, target, split))
      rest_.insert(rest_.end(), group.begin(), group.end());
  return fill(rest_, target, split);
}

}  // namespace relibra
