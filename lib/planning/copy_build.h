#pragma once
// Building a set of copies for a target load: like Walker's alias method, the neediest rank is filled to the
// target from an expert of an overloaded rank, which may itself be driven below the target and filled later.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/planning/copy_split.h"

namespace relibra {

class CopyBuilder {
 public:
  /// Sorts each rank's experts. Among the experts of one home the larger can stand in for the smaller in any
  /// plan, so that no more than (ranks - 1) * slots of them need be looked at.
  void reset(const DomainLoad& domain, const ReplicateOptions& options);

  /// Copies and a split in `out` with no rank above `target`; false where this construction finds none (then
  /// `out` is left as far as it came).
  bool build(std::int64_t target, CopySplit& out) const;

 private:
  /// Experts of one home, heaviest first.
  std::span<const std::int32_t> heaviest(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return {by_rank_.data() + first_[r], static_cast<std::size_t>(last_[r] - first_[r])};
  }
  int neediest(const CopySplit& split, std::int64_t target) const;
  bool feed(int rank, std::int64_t target, CopySplit& split) const;

  DomainLoad domain_;
  ReplicateOptions options_;
  std::vector<std::int32_t> by_rank_;       // experts by home, heaviest first
  std::vector<std::int32_t> first_, last_;  // (ranks) in by_rank_
};

}  // namespace relibra
