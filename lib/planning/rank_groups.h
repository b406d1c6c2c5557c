#pragma once
// Groups of ranks that can reach a target load among themselves.
#include <cstdint>
#include <span>
#include <vector>

namespace relibra {

/// Cuts ranks into small groups whose room (target - load, negative where overloaded) sums to at least zero,
/// as many as a search of the smallest groups with the least left-over room finds. Each group of k ranks can
/// be served by k - 1 copies where one group of all takes n - 1.
///
/// Example: room -3 4 -5 2 2 1: groups {0, 1} (left over 1) and, with nothing left over of the total 1, none
/// other; the rest {2, 3, 4, 5} sums to 0.
class RankGroups {
 public:
  /// `room` (ranks).
  void find(std::span<const std::int64_t> room);

  int count() const { return static_cast<int>(end_.size()); }
  std::span<const std::int32_t> group(int i) const {
    const auto g = static_cast<std::size_t>(i);
    const auto begin = static_cast<std::size_t>(g == 0 ? 0 : end_[g - 1]);
    return {members_.data() + begin, static_cast<std::size_t>(end_[g]) - begin};
  }
  /// Ranks in no group, those with no room and no excess among them.
  std::span<const std::int32_t> rest() const { return rest_; }

 private:
  struct Entry {
    std::int64_t room;
    std::int32_t rank;
  };
  bool take_best(int size, std::int64_t slack);
  void search(int left, std::size_t from, std::int64_t sum);

  std::vector<Entry> free_;  // ranks not yet in a group, by ascending room
  std::vector<std::int32_t> members_, end_, rest_;
  std::vector<std::size_t> chosen_, best_;  // indices into free_
  std::int64_t best_over_ = 0;
};

}  // namespace relibra
