#include "lib/planning/copy_repair.h"

#include <algorithm>
#include <utility>

namespace relibra {
namespace {

constexpr int kTrials = 400;  // about a fifth of a millisecond for 8 ranks

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

void CopyRepair::reset(const DomainLoad& domain, const ReplicateOptions& options) {
  domain_ = domain;
  options_ = options;
  trials_ = kTrials;
}

// A copy of `expert` on `taker`, `instead` of an item or of none (-1); kept if less stays above the target.
bool CopyRepair::try_copy(int expert, int taker, int instead, std::int64_t target, CopySplit& split) {
  if (trials_ == 0) return false;
  --trials_;
  trial_ = split;
  if (instead >= 0) trial_.remove(instead);
  trial_.add(expert, taker, 0);
  const std::int64_t above = trial_.relieve(target);
  if (above >= above_) return false;
  above_ = above;
  std::swap(trial_, split);
  return true;
}

// The expert of `donor` that best fills the taker's room, and its largest, each with every item that has to
// make place.
bool CopyRepair::try_from(int donor, int taker, std::int64_t target, CopySplit& split) {
  const std::int64_t room = target - split.load(taker);
  int largest = -1, fitting = -1;
  for (std::size_t e = 0; e < domain_.home.size(); ++e) {
    const int expert = static_cast<int>(e);
    if (domain_.home[e] != donor || split.at_home(expert) == 0 || split.holds(expert, taker)) continue;
    const std::int64_t size = split.at_home(expert);
    if (largest < 0 || size > split.at_home(largest)) largest = expert;
    if (size >= room && (fitting < 0 || size < split.at_home(fitting))) fitting = expert;
  }
  if (largest < 0) return false;
  const bool slot_free = split.copies_on(taker) < options_.slots;
  const bool may_send = options_.max_fan_out == 0 || split.copies_of_home(donor) < options_.max_fan_out;
  if (fitting == largest) fitting = -1;
  for (int expert : {fitting, largest}) {
    if (expert < 0) continue;
    if (slot_free && may_send) {
      if (try_copy(expert, taker, -1, target, split)) return true;
      continue;
    }
    for (std::size_t i = 0; i < split.items().size(); ++i) {
      const CopySplit::Item item = split.items()[i];
      if (item.rank < 0) continue;
      const bool frees_slot = slot_free || item.rank == taker;
      const bool frees_fan = may_send || domain_.home[at(item.expert)] == donor;
      if (frees_slot && frees_fan && try_copy(expert, taker, static_cast<int>(i), target, split)) return true;
    }
  }
  return false;
}

bool CopyRepair::step(std::int64_t target, CopySplit& split) {
  for (int donor = 0; donor < split.ranks(); ++donor) {
    if (!split.stuck(donor)) continue;
    for (int taker = 0; taker < split.ranks(); ++taker)
      if (!split.stuck(taker) && try_from(donor, taker, target, split)) return true;
  }
  return false;
}

bool CopyRepair::repair(std::int64_t target, CopySplit& split) {
  above_ = split.relieve(target);
  while (above_ > 0)
    if (!step(target, split)) return false;
  return true;
}

}  // namespace relibra
