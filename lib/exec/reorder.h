#pragma once
// Reordering between two steps: experts that change their home move there, weights and both optimizer
// moments.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/exec/buffers.h"
#include "lib/exec/generate.h"
#include "lib/exec/transport.h"

namespace relibra::exec {

/// Where experts are before the step.
struct PlacementBefore {
  const Placement& placement;             ///< (L, E)
  std::span<const ExpertId> slot_expert;  ///< (L, P, slots), invalid where empty
  int slots = 0;
};

struct ReorderResult {
  std::int64_t moves = 0;          ///< of the selected layers, one EP group
  std::int64_t bytes = 0;          ///< sent by all ranks
  std::int64_t busiest_bytes = 0;  ///< sent or received by the busiest rank in one layer, summed over layers
  double seconds = 0;              ///< of the slowest rank: sending, receiving, and copying what stays
  std::int64_t wrong = 0;  ///< tensors (weights or a moment of an expert) that are not bit-equal to what the
                           ///< generator says; -1: not looked at
};

/// Device memory of reorder_experts beside the buffers: two states of one layer.
std::int64_t reorder_bytes(const ModelShape& shape, int slots_before, int slots);

/// Collective, one rank a process; layer by layer, over the tokens channel. Afterwards buffers.home_weights
/// hold the weights of `plan`'s placement. `verify` compares weights and moments with the generator's.
ReorderResult reorder_experts(const Comm& comm, Transport& transport, const Stream& stream, const Plan& plan,
                              const PlacementBefore& before, std::span<const LayerId> layers,
                              const ModelShape& shape, const Generator& generator, RankBuffers& buffers,
                              bool verify);

}  // namespace relibra::exec
