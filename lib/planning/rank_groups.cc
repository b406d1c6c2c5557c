#include "lib/planning/rank_groups.h"

#include <algorithm>

namespace relibra {
namespace {

// Larger groups save little: 100 nodes of 8 ranks at 1 % of slack need 490 copies with groups up to 3, 484 up
// to 4, 482 up to 6.
constexpr int kLargest = 4;
constexpr double kMaxSets = 4096;  // sets looked at to find one group, which keeps large domains fast

double sets_of(std::size_t n, int size) {
  double sets = 1;
  for (int k = 0; k < size - 1; ++k) sets *= static_cast<double>(n - static_cast<std::size_t>(k)) / (k + 1);
  return sets;
}

}  // namespace

// Tries every set that begins with `chosen_`; its last and roomiest member follows from the others: the least
// room that covers their sum.
void RankGroups::search(int left, std::size_t from, std::int64_t sum) {
  if (left == 1) {
    auto last = std::lower_bound(free_.begin() + static_cast<std::ptrdiff_t>(from), free_.end(), -sum,
                                 [](const Entry& e, std::int64_t room) { return e.room < room; });
    if (last == free_.end() || sum + last->room >= best_over_) return;
    best_over_ = sum + last->room;
    best_ = chosen_;
    best_.push_back(static_cast<std::size_t>(last - free_.begin()));
    return;
  }
  for (std::size_t i = from; i + 1 < free_.size(); ++i) {
    if (chosen_.empty() && free_[i].room >= 0) return;  // nobody overloaded: no group
    chosen_.push_back(i);
    search(left - 1, i + 1, sum + free_[i].room);
    chosen_.pop_back();
  }
}

// Takes the group of `size` ranks with the least left-over room, at most `slack`.
bool RankGroups::take_best(int size, std::int64_t slack) {
  best_over_ = slack + 1;
  best_.clear();
  search(size, 0, 0);
  if (best_.empty()) return false;
  for (std::size_t i : best_) members_.push_back(free_[i].rank);
  end_.push_back(static_cast<std::int32_t>(members_.size()));
  for (auto i = best_.rbegin(); i != best_.rend(); ++i)
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(*i));
  return true;
}

void RankGroups::find(std::span<const std::int64_t> room) {
  free_.clear();
  members_.clear();
  end_.clear();
  rest_.clear();
  std::int64_t slack = 0;  // what all groups together may leave over
  for (std::size_t r = 0; r < room.size(); ++r) {
    slack += room[r];
    if (room[r] != 0) free_.push_back({room[r], static_cast<std::int32_t>(r)});
  }
  std::sort(free_.begin(), free_.end(), [](const Entry& a, const Entry& b) {
    return a.room != b.room ? a.room < b.room : a.rank < b.rank;
  });
  for (int size = 2; size <= kLargest; ++size)
    while (free_.size() > static_cast<std::size_t>(size) && sets_of(free_.size(), size) <= kMaxSets &&
           take_best(size, slack))
      slack -= best_over_;
  for (const Entry& e : free_) rest_.push_back(e.rank);
}

}  // namespace relibra
