#pragma once
// From counts per sequence to what the two stages see, and from a cell's decision to its tables.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/model/counts.h"
#include "lib/model/plan.h"
#include "lib/planning/pack.h"

namespace relibra {

/// Who is where: the columns that turn sequence counts into loads.
struct SequencePlaces : Packing {
  std::vector<std::int32_t> group;        ///< (S) EP group
  std::vector<std::int32_t> source_rank;  ///< (S) global; empty before sources are assigned
};

/// (M*D, E) loads of one owned layer.
LayerLoads layer_loads(const SequenceCounts& counts, LayerId layer, const SequencePlaces& places, int groups);

/// Adds one owned layer to `affinity` (S, nodes): assignments of a sequence whose expert's home, in the
/// sequence's EP group, is on the node.
void add_affinity(const SequenceCounts& counts, LayerId layer, std::span<const EpRankId> home,
                  const SequencePlaces& places, const Topology& topology, std::span<std::int64_t> affinity);

/// One owned layer of (layer, S, N) loads by node of the sequence's EP group: assignments whose expert's home
/// is on it. `out` (S, N).
void load_nodes(const SequenceCounts& counts, LayerId layer, std::span<const EpRankId> home,
                const Topology& topology, std::span<std::int32_t> out);

/// Sequences of each micro-batch, in order.
std::vector<std::vector<std::int32_t>> by_micro_batch(const SequencePlaces& places);

/// (E, W) of one cell from the sequences of its micro-batch.
void fill_cell(const SequenceCounts& counts, LayerId layer, std::span<const std::int32_t> sequences,
               const SequencePlaces& places, CellCounts& cell);

/// A planned cell with its tables.
struct PlannedCell {
  CellPlan plan;
  std::vector<std::int64_t> rank_tokens;         ///< (W)
  std::vector<std::int64_t> rank_tokens_static;  ///< (W)
  std::vector<std::int32_t> transfer;            ///< (W, P)
};

/// Fills the tables from counts, homes and `cell.plan`.
///
/// Example: P = W = 2, E = 2, expert e at home on rank e, count = 5 0 / 2 3; a copy of expert 0 on rank 1
/// with split 0->0: 4, 0->1: 1. transfer = 4 3 / 0 3; rank_tokens = 4 6; rank_tokens_static = 5 5.
void tabulate(const CellCounts& counts, std::span<const EpRankId> home, const Topology& topology,
              PlannedCell& cell);

/// Collective. From cells by owned layer (element m * owned layers + i) to cells share_of(num_cells, rank,
/// size). Transfers are dropped unless wanted.
PlanCells share_out(const Comm& comm, const PlanHeader& header, std::span<const PlannedCell> cells,
                    bool transfers);

}  // namespace relibra
