#pragma once
// Loads: how many assignments ((token, expert) pairs) go where. The planners see counts, never rows.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/share.h"
#include "lib/model/topology.h"

namespace relibra {

/// Assignments per sequence and expert for the layers that one rank owns: (owned layers, S, E) u32,
/// row-major.
class SequenceCounts {
 public:
  SequenceCounts() = default;
  SequenceCounts(Range layers, std::int64_t sequences, int experts)
      : layers_(layers),
        sequences_(sequences),
        experts_(experts),
        data_(static_cast<std::size_t>(layers.size() * sequences * experts)) {}

  Range layers() const { return layers_; }  ///< routed layers owned here
  std::int64_t sequences() const { return sequences_; }
  int experts() const { return experts_; }

  /// (E) counts of one sequence; `layer` must be owned.
  std::span<std::uint32_t> of(LayerId layer, std::int64_t sequence) { return {at(layer, sequence), width()}; }
  std::span<const std::uint32_t> of(LayerId layer, std::int64_t sequence) const {
    return {const_cast<SequenceCounts*>(this)->at(layer, sequence), width()};
  }
  /// (S, E) of one layer.
  std::span<const std::uint32_t> layer(LayerId layer) const {
    return {const_cast<SequenceCounts*>(this)->at(layer, 0), width() * static_cast<std::size_t>(sequences_)};
  }

 private:
  std::size_t width() const { return static_cast<std::size_t>(experts_); }
  std::uint32_t* at(LayerId layer, std::int64_t sequence) {
    return data_.data() + ((layer.value() - layers_.first) * sequences_ + sequence) * experts_;
  }
  Range layers_;
  std::int64_t sequences_ = 0;
  int experts_ = 0;
  std::vector<std::uint32_t> data_;
};

/// Tokens of one cell by expert and source rank: (E, W) i32, row-major. What a policy divides inside a step.
///
/// Example: E = 2, W = 2, count = 5 0 / 2 3: expert 0 has 5 tokens, all held by rank 0; expert 1 has 2 and 3.
class CellCounts {
 public:
  CellCounts() = default;
  CellCounts(int experts, int world)
      : experts_(experts),
        world_(world),
        data_(static_cast<std::size_t>(experts) * static_cast<std::size_t>(world)) {}

  int experts() const { return experts_; }
  int world() const { return world_; }
  std::int32_t& at(ExpertId e, RankId source) {
    return data_[e.index() * static_cast<std::size_t>(world_) + source.index()];
  }
  std::int32_t at(ExpertId e, RankId source) const {
    return data_[e.index() * static_cast<std::size_t>(world_) + source.index()];
  }
  /// (W) tokens of one expert by source.
  std::span<const std::int32_t> of(ExpertId e) const {
    return {data_.data() + e.index() * static_cast<std::size_t>(world_), static_cast<std::size_t>(world_)};
  }
  /// Tokens of one expert from the sources of one EP group.
  std::int64_t total(ExpertId e, GroupId group, const Topology& t) const {
    std::int64_t sum = 0;
    for (std::int32_t n :
         of(e).subspan(t.rank_of(group, EpRankId(0)).index(), static_cast<std::size_t>(t.ep_size)))
      sum += n;
    return sum;
  }
  void clear() { std::fill(data_.begin(), data_.end(), 0); }

 private:
  int experts_ = 0;
  int world_ = 0;
  std::vector<std::int32_t> data_;
};

/// Loads of one layer over the step, (M*D, E) i64 with micro-batch-and-group index m*D+g: what expert
/// reordering sees.
struct LayerLoads {
  int micro_batches = 0;  ///< M
  int groups = 1;         ///< D
  int experts = 0;        ///< E
  std::vector<std::int64_t> data;

  std::span<const std::int64_t> of(MicroBatchId m, GroupId g) const {
    return {data.data() + (m.index() * static_cast<std::size_t>(groups) + g.index()) *
                              static_cast<std::size_t>(experts),
            static_cast<std::size_t>(experts)};
  }
};

}  // namespace relibra
