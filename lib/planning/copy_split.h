#pragma once
// Copies of one domain with the assignments that every holder of an expert computes, and the exact best split
// of given copies.
//
// Ranks above a target pass assignments on along chains of holders (a maximum flow, kept as a residual
// graph). Where a rank above the target reaches no rank below it, the ranks it does reach compute only
// experts that live wholly among them, so no split of these copies does better than the mean of that set;
// raising the target to that mean and going on ends at the exact best (Dinkelbach's method on max over sets
// of ranks of load inside / size).
#include <cstdint>
#include <span>
#include <vector>

#include "lib/planning/replicate.h"

namespace relibra {

class CopySplit {
 public:
  /// A copy; `rank` is -1 where it has been removed.
  struct Item {
    std::int32_t expert, rank;
    std::int64_t tokens;
    std::int32_t next_of_expert, next_on_rank, next_of_home;
  };

  /// No copies: every home computes all of its experts. `domain` is kept by reference.
  void reset(const DomainLoad& domain);

  int ranks() const { return static_cast<int>(rank_load_.size()); }
  std::int64_t total() const { return total_; }
  std::int64_t load(int rank) const { return rank_load_[static_cast<std::size_t>(rank)]; }
  /// Assignments of an expert that its home computes.
  std::int64_t at_home(int expert) const { return at_home_[static_cast<std::size_t>(expert)]; }
  bool holds(int expert, int rank) const;
  int copies() const { return copies_; }
  int copies_on(int rank) const { return on_rank_[static_cast<std::size_t>(rank)].count; }
  int copies_of_home(int rank) const { return of_home_[static_cast<std::size_t>(rank)].count; }
  std::int64_t max_load() const;
  std::span<const Item> items() const { return items_; }

  /// Adds a copy and moves `tokens` from the home to it. The rank holds the expert not yet.
  void add(int expert, int rank, std::int64_t tokens);
  /// Takes item `i` away if no rank need then be above `target`; else changes nothing and returns false.
  bool drop(int i, std::int64_t target);

  /// Takes item `i` away; its assignments go back to the home.
  void remove(int i);

  /// Moves assignments among holders from ranks above `target` to ranks below; returns what must stay above
  /// it with these copies. Where that is not 0, `stuck` tells the ranks that pass nothing on to any rank
  /// below: all that they compute lives among them alone.
  std::int64_t relieve(std::int64_t target);
  bool stuck(int rank) const { return stuck_[static_cast<std::size_t>(rank)] != 0; }
  /// The best slowest rank that these copies allow, and the split that reaches it.
  std::int64_t tighten();

  /// The copies that compute something, sorted by (expert, rank).
  std::vector<Quota> quotas() const;

 private:
  struct List {
    std::int32_t first = -1, count = 0;
  };
  std::int32_t home(int expert) const { return domain_.home[static_cast<std::size_t>(expert)]; }
  void unlink(List& list, std::int32_t Item::*next, std::int32_t i);
  void unlink(std::int32_t i, std::int32_t rank);
  void take_home(Item& item);
  void save();
  void restore();
  std::int64_t& tokens_of(int expert, std::int32_t item);
  bool push_down(int from, std::int64_t target);
  int find_below(int from, std::int64_t target);
  int visit_holders(int expert, std::int32_t item, std::int64_t target);
  void push(int from, int to, std::int64_t target);

  DomainLoad domain_;
  std::int64_t total_ = 0;
  int copies_ = 0;
  std::vector<std::int64_t> rank_load_;              // (ranks)
  std::vector<std::int64_t> at_home_;                // (experts)
  std::vector<Item> items_;                          // removed ones stay, marked
  std::vector<List> of_expert_, on_rank_, of_home_;  // items by expert, holder, home

  std::vector<std::int32_t> stuck_;  // (ranks)
  std::vector<std::int64_t> saved_load_, saved_home_, saved_tokens_;

  // The breadth-first search: which ranks and experts were reached in this round, and by which holder.
  static constexpr std::int32_t kHome = -1;  // the holder is the home, not an item
  std::uint32_t round_ = 0;
  std::vector<std::uint32_t> rank_round_, expert_round_;
  std::vector<std::int32_t> rank_expert_,
      rank_item_;  // the expert a rank was reached by, and as which holder
  std::vector<std::int32_t> expert_item_, expert_rank_;  // the holder an expert was reached by
  std::vector<std::int32_t> queue_;
};

}  // namespace relibra
