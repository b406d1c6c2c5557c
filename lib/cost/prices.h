#pragma once
// What a cluster makes of an expert on its way, in assignments of the slowest rank: the unit planning trades
// in.
#include "lib/cost/step_time.h"

namespace relibra {

struct Prices {
  double move = 0;  ///< an expert that a rank sends to its new home between steps, over the network, or
                    ///< NVLink where the group is one node
  double push =
      0;  ///< a copy that a rank sends to or gets from another node in a cell, where nothing hides it
  double far = 0;     ///< an assignment on another node than its token's, over the ranks of the group
  double shadow = 0;  ///< what of pushes attention hides in a cell, over the mean assignments of a rank
};

/// With the terms of step_time.h, p the parameters of an expert, F its operations, T the token factor, and an
/// assignment that takes a = 3 F T / (flops gemm_share):
///
///   move   = p moved_bytes / B / a, B_network or B_nvlink
///   push   = p (weight_bytes + max(weight_bytes, gradient_bytes)) / B_network / a
///   far    = H T (dispatch_bytes + 3 combine_bytes) / B_network / a, times the chance that none of the
///   token's
///            other top_k - 1 experts is on that node: (1 - 1 / nodes) ^ (top_k - 1)
///   shadow = overlap attention / (mean assignments a), of a rank with top_k assignments a token
///
/// Example: tests/cost/prices_test.cc.
Prices prices_of(const Cluster& cluster, const LayerModel& model, const StepTimeOptions& options,
                 const Topology& topology, int top_k);

}  // namespace relibra
