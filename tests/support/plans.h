#pragma once
// Plans in memory for tests of files: right in shape and range, not in meaning.
#include "lib/model/plan.h"
#include "tests/support/raw_file.h"

namespace relibra::test {

struct PlanSize {
  int experts = 5, layers = 3, micro_batches = 4, sequences = 6, replica_slots = 2;
  Topology topology = {.ep_size = 2, .ep_groups = 2, .gpus_per_node = 2};
  bool transfers = true;
  std::uint64_t seed = 1;
};

struct WholePlan {
  Plan plan;
  PlanCells cells;  ///< all
};

WholePlan sample_plan(const PlanSize& size);

/// The cells of a range out of all cells.
PlanCells part_of(const WholePlan& whole, Range cells);

/// The file of a plan by hand: E = 4, L = 1, K = 2, M = 2, P = W = G = 2, C = 2, V = 1, two sequences. Expert
/// 0 is copied to rank 1 in both cells; cell 0 splits its 5 tokens of source 0 as 3 and 2.
RawFile tiny_plan();

}  // namespace relibra::test
