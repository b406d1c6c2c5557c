#pragma once
// Which ranks hold which experts in one cell and EP group, and in which slot.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/model/plan.h"

namespace relibra::exec {

/// Slots of a rank are numbered 0..C-1 for homes and C..C+V-1 for copies.
///
/// Example: P = 2, C = 1, V = 1, homes 0 | 1, expert 0 copied to rank 1: slot(0, rank 0) = 0,
/// slot(0, rank 1) = 1, slot(1, rank 1) = 0, slot(1, rank 0) = -1.
class Holders {
 public:
  /// `copies` of the cell, all groups. Throws Fault::input, naming the cell, where a copy is out of range, on
  /// its home, out of its domain, out of order or in a slot that is taken, or where slots and homes disagree.
  Holders(const Plan& plan, MicroBatchId m, LayerId l, GroupId group, std::span<const Copy> copies);

  const Topology& topology() const { return topology_; }
  GroupId group() const { return group_; }
  std::size_t experts() const { return home_.size(); }
  RankId home(ExpertId e) const { return home_[e.index()]; }
  /// Copies in this group, by (expert, rank).
  std::span<const Copy> copies() const { return copies_; }
  std::span<const Copy> copies(ExpertId e) const;
  /// -1 where the rank does not hold the expert.
  std::int32_t slot(ExpertId e, RankId rank) const;

 private:
  Topology topology_;
  GroupId group_;
  int home_slots_;
  std::vector<RankId> home_;             // (E)
  std::vector<std::int32_t> home_slot_;  // (E)
  std::vector<Copy> copies_;
};

}  // namespace relibra::exec
