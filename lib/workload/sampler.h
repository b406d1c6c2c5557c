#pragma once
// Top-k experts of the tokens of one sequence in one layer. Local, one thread.
#include <array>
#include <cstdint>
#include <vector>

#include "lib/base/share.h"
#include "lib/workload/draw.h"
#include "lib/workload/terms.h"

namespace relibra::workload {

/// Walker's alias table (Vose's construction): draws i with probability weight[i] / sum in constant time.
class AliasTable {
 public:
  bool empty() const { return entries_.empty(); }
  void clear() { entries_.clear(); }
  /// Weights: positive, not all equal to zero after rounding; sizes up to 2^16.
  void build(const std::vector<double>& weights);

  std::uint32_t draw(std::uint64_t bits) const {
    const auto column = static_cast<std::uint32_t>(((bits >> 32) * entries_.size()) >> 32);
    const Entry entry = entries_[column];
    return static_cast<std::uint32_t>(bits) < entry.threshold ? column : entry.alias;
  }

 private:
  struct Entry {
    std::uint32_t threshold, alias;
  };
  std::vector<Entry> entries_;
  std::vector<double> scaled_;
  std::vector<std::uint32_t> small_, large_;
};

/// Draws without replacement by weight: an expert is drawn from the alias table and drawn again where the row
/// has it, which is the same in distribution as renormalising after each draw, and as the top k of Gumbel
/// keys.
class SequenceSampler {
 public:
  explicit SequenceSampler(const WorkloadOptions& options);

  /// Turns to a sequence and layer.
  void begin(const LayerTerms& terms, int layer, std::int64_t sequence, int prompt, int domain);

  /// Rows [rows.first, rows.last) of the sequence: K ids each, `stride` ids apart. The same for any cut of a
  /// sequence into ranges.
  template <class T>
  void sample(Range rows, T* out, std::int64_t stride);

 private:
  template <class T>
  void sample_chunk(std::int64_t chunk, Range rows, T* out, std::int64_t stride);
  template <class T>
  void sample_row(Random& random, int type, T* out);
  std::uint32_t draw_rest(Random& random, int type);
  const AliasTable& table(int type);

  const WorkloadOptions& options_;
  const LayerTerms* terms_ = nullptr;
  std::uint64_t key_ = 0;
  std::array<double, kTypes> type_limit_{};  ///< running sums of the shares of types
  std::vector<double> factor_;               ///< (E) weight without the type's part
  std::array<AliasTable, kTypes> tables_;
  std::vector<double> weights_;      ///< (E) scratch
  std::vector<std::uint32_t> seen_;  ///< (E) stamp of the last row that has the expert
  std::uint32_t stamp_ = 0;
};

}  // namespace relibra::workload
