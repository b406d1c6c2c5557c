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

/// Micro-batches, each cut into W shares; the sequences of a share are held by one rank.
///
/// Example: W = 2, M = 2, sequences of 5 4 3 3 tokens: shares of 5 and 4 tokens make micro-batch 0, shares of
/// 3 and 3 micro-batch 1, since the ranks of a micro-batch wait for its largest share: micro_batch = 0 0 1 1,
/// share = 0 1 0 1.
struct Packing {
  int micro_batches = 0;                  ///< M, a multiple of the dump's optimizer_steps
  std::vector<std::int32_t> micro_batch;  ///< (S)
  std::vector<std::int32_t> share;        ///< (S) 0..W-1; the source rank itself where the dump fixes it
};

/// Micro-batches and shares for all sequences, whatever of them the dump leaves open. Lengths (num_tokens)
/// are balanced over shares, and shares of like length make a micro-batch; a share is never over the token
/// budget except for one sequence that is larger alone; with a budget M is the least for which such shares
/// were found; a prompt group stays inside one optimizer step. Local and deterministic: every rank computes
/// the same. Throws Fault::usage where the options contradict the dump.
Packing form_micro_batches(const RoutingDump& dump, const Topology& topology, const PackOptions& options);

/// EP group of every sequence, (S) GroupId values: the shares of each micro-batch are dealt to the D groups,
/// P each, tokens balanced. Needed before reordering because the groups of a cell are loaded separately.
std::vector<std::int32_t> assign_groups(const RoutingDump& dump, const Packing& packing,
                                        const Topology& topology);

/// Source rank of every sequence, (S); given ones as they are. The shares of each micro-batch and group are
/// dealt to the group's nodes, tokens balanced; among shares of like length each goes near its experts:
/// `affinity` (S, nodes) is the number of a sequence's assignments, over all layers, whose expert's home is
/// on that node (of its own EP group); may be empty.
std::vector<std::int32_t> assign_sources(const RoutingDump& dump, const Packing& packing,
                                         std::span<const std::int32_t> group,
                                         std::span<const std::int64_t> affinity, const Topology& topology);

}  // namespace relibra
