#pragma once
// Ranks of a plan carried in turn by fewer processes: only what each computes is run, cell by cell, so that a
// plan for many GPUs can be benchmarked for compute on one, or on a laptop. Nothing is sent, and rows hold
// constants.
#include <span>
#include <string>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/exec/buffers.h"
#include "lib/exec/measure.h"

namespace relibra::exec {

/// The schedules of the carried ranks under one variant.
struct CarriedSchedules {
  std::string variant;
  std::vector<RankSchedule> ranks;
};

/// Sizes of one cell at a time: the memory of emulate(). Largest over the carried ranks and variants.
StepSizes emulated_sizes(std::span<const CarriedSchedules> variants);

/// Collective. Seconds of Phase::compute, forward and backward, of every rank and cell: medians over repeats,
/// each of which goes round all cells with the variants taking turns. A host with one thread a process counts
/// processor time. All other phases are 0. `buffers` as emulated_sizes() says.
std::vector<Measured> emulate(const Comm& comm, const Device& device,
                              std::span<const CarriedSchedules> variants, const ModelShape& shape,
                              RankBuffers& buffers, const RepeatOptions& options);

}  // namespace relibra::exec
