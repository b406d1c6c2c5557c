#pragma once
// Top-k experts of the tokens of one sequence in one layer. Local, one thread.
#include <array>
#include <cstdint>
#include <vector>

#include "lib/base/share.h"
#include "lib/workload/alias.h"
#include "lib/workload/runs.h"
#include "lib/workload/terms.h"

namespace relibra::workload {

/// Draws without replacement by weight: an expert is drawn from the alias table and drawn again where the row
/// has it, which is the same in distribution as renormalising after each draw, and as the top k of Gumbel
/// keys.
class SequenceSampler {
 public:
  /// Run by run, or 16 side by side where the machine can (runs.h). The rows are the same.
  enum class Method { single, side_by_side };
  explicit SequenceSampler(const WorkloadOptions& options);
  SequenceSampler(const WorkloadOptions& options, Method method);

  /// Turns to a sequence and layer.
  void begin(const LayerTerms& terms, int layer, std::int64_t sequence, int prompt, int domain);

  /// Rows [rows.first, rows.last) of the sequence: K ids each, `stride` ids apart. The same for any cut of a
  /// sequence into ranges.
  template <class T>
  void sample(Range rows, T* out, std::int64_t stride);

 private:
  /// Rows that are wanted, and where they go.
  template <class T>
  struct Output {
    Range rows;
    T* out;
    std::int64_t stride;
    T* of(std::int64_t row) const { return out + (row - rows.first) * stride; }
  };

  void set_prompt(const LayerTerms& terms, int layer, int prompt, int domain);
  int draw_type(RunRandom& random);
  template <class T>
  void sample_run(std::int64_t run, const Output<T>& output);
  template <class T>
  void sample_batch(std::int64_t first_run, const Output<T>& output);
  template <class T>
  void sample_row(RunRandom& random, int type, T* out);
  std::uint32_t draw_rest(RunRandom& random, int type);

  const WorkloadOptions& options_;
  Method method_;
  DrawRule rule_;
  const LayerTerms* terms_ = nullptr;
  std::uint64_t key_ = 0;
  std::uint64_t prompt_key_ = 0;                        ///< of prompt_weight_
  std::array<std::uint32_t, kTypes - 1> type_limit_{};  ///< running sums of the shares of types, of 2^32
  std::vector<double> prompt_weight_;                   ///< (E) exp(base + domain + prompt)
  std::vector<double> factor_;                          ///< (E) the same times the sequence's factor
  AliasTables tables_;
  std::vector<double> weights_;      ///< (E) scratch
  std::vector<std::uint32_t> seen_;  ///< (E) stamp of the last row that has the expert
  std::uint32_t stamp_ = 0;
};

}  // namespace relibra::workload
