#pragma once
// The curve of the step-time model fitted to times that were measured.
#include <span>

#include "lib/cost/step_time.h"

namespace relibra {

/// Experts of one rank in one cell and direction, measured.
struct GemmSample {
  double rows = 0;     ///< assignments
  double experts = 0;  ///< among which they are spread
  double passes = 1;   ///< 1 forward, 2 backward: as many times the operations
  double seconds = 0;
};

/// seconds = passes (row rows + expert experts): the least squares, neither negative.
///
/// Example: 10 rows on 1 expert in 12 s, 20 rows on 2 in 24 s, 30 rows on 1 in 32 s: row 1 s, expert 2 s.
struct GemmFit {
  double row = 0, expert = 0;  ///< seconds
  double error = 0;            ///< sum of |fitted - measured| / sum of measured
};
/// Throws Fault::input where no sample has rows and time.
GemmFit fit_gemm(std::span<const GemmSample> samples);

/// `cluster` with the shares that make an expert's `flops` a row take fit.row, and gemm_half_rows = expert /
/// row. The share of attention keeps its ratio to that of experts.
Cluster with_gemm(Cluster cluster, const GemmFit& fit, double flops);

}  // namespace relibra
