#pragma once
// Building a set of copies for a target load: like Walker's alias method, the neediest rank is filled to the
// target from an expert of an overloaded rank, which may itself be driven below the target and filled later.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/planning/copy_split.h"
#include "lib/planning/rank_groups.h"

namespace relibra {

class CopyBuilder {
 public:
  /// `domain` is kept by reference.
  void reset(const DomainLoad& domain, const ReplicateOptions& options);

  /// Copies and a split in `out` with no rank above `target`; false where this construction finds none (then
  /// `out` is left as far as it came).
  bool build(std::int64_t target, CopySplit& out);
  /// The same with fewer copies, by use of the slack that `target` leaves: ranks are first cut into groups
  /// that need nothing from each other, and a group of k ranks needs k - 1 copies. Fails more often.
  bool build_grouped(std::int64_t target, CopySplit& out);

 private:
  std::span<const std::int32_t> experts_of(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return {by_rank_.data() + first_[r], static_cast<std::size_t>(first_[r + 1] - first_[r])};
  }
  bool fill(std::span<const std::int32_t> ranks, std::int64_t target, CopySplit& split) const;
  bool feed(int rank, std::span<const std::int32_t> ranks, std::int64_t target, CopySplit& split) const;

  DomainLoad domain_;
  ReplicateOptions options_;
  RankGroups groups_;
  std::vector<std::int32_t> by_rank_, first_, next_;  // experts by home; (ranks + 1) offsets
  std::vector<std::int32_t> all_, rest_;              // (ranks)
  std::vector<std::int64_t> room_;                    // (ranks)
};

}  // namespace relibra
