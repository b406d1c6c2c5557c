#pragma once
// Which sequence is in which micro-batch and on which source rank, before and after experts have homes.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/model/routing.h"
#include "lib/model/topology.h"

namespace relibra {

/// How to form micro-batches where the dump fixes none: exactly one of the two is set.
struct PackOptions {
  int micro_batches = 0;                    ///< M
  std::int64_t tokens_per_micro_batch = 0;  ///< budget a source rank and micro-batch, in num_tokens
};

struct Packing {
  int micro_batches = 0;                  ///< M, a multiple of the dump's optimizer_steps
  std::vector<std::int32_t> micro_batch;  ///< (S)
};

/// Micro-batches for all sequences. Lengths (num_tokens) are balanced over ranks and then nodes; a rank's
/// share of a micro-batch is never over the token budget except for one sequence that is larger alone; a
/// prompt group stays inside one optimizer step. Local and deterministic: every rank computes the same.
/// Throws Fault::usage where the options contradict the dump.
Packing form_micro_batches(const RoutingDump& dump, const Topology& topology, const PackOptions& options);

/// EP group of every sequence, (S) GroupId values, tokens of each micro-batch balanced over the D groups; all
/// zero where D = 1. Needed before reordering because the groups of a cell are loaded separately.
std::vector<std::int32_t> assign_groups(const RoutingDump& dump, std::span<const std::int32_t> micro_batch,
                                        int micro_batches, const Topology& topology);

/// Source rank of every sequence, (S). Tokens of each micro-batch are balanced over nodes and ranks first;
/// among equals a sequence goes near its experts: `affinity` (S, nodes) is the number of its assignments,
/// over all layers, whose expert's home is on that node (of its own EP group); may be empty.
std::vector<std::int32_t> assign_sources(const RoutingDump& dump, std::span<const std::int32_t> micro_batch,
                                         int micro_batches, std::span<const std::int32_t> group,
                                         std::span<const std::int64_t> affinity, const Topology& topology);

}  // namespace relibra
