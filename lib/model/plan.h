#pragma once
// A plan in memory: the part that every rank holds (Plan) and a range of cells (PlanCells), which ranks share
// out. The file form is docs/formats.md; the letters are the same.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/share.h"
#include "lib/model/placement.h"
#include "lib/model/topology.h"

namespace relibra {

enum class ReplicaDomain { node, group };

struct PlanHeader {
  std::int64_t step = 0;
  std::string policy;
  std::uint64_t seed = 0;
  std::string tool;  ///< name and version that wrote it
  int num_experts = 0, top_k = 0, num_micro_batches = 0;
  Topology topology;
  int slots_per_rank = 0;  ///< C, home slots
  int replica_slots = 0;   ///< V
  int physical_slots = 0;  ///< homes plus copies of a rank never exceed it in any cell
  ReplicaDomain replica_domain = ReplicaDomain::node;
  std::string dump_digest;
  std::int64_t search_moves = 0;
  std::int64_t folded_copies = 0;    ///< over all cells; see CellPlan::folded
  std::vector<std::int32_t> layers;  ///< (L) as in the dump

  int num_layers() const { return static_cast<int>(layers.size()); }
  std::int64_t num_cells() const { return std::int64_t{num_micro_batches} * num_layers(); }
  /// Cells are numbered micro-batch major: m*L + l.
  std::int64_t cell(MicroBatchId m, LayerId l) const {
    return std::int64_t{m.value()} * num_layers() + l.value();
  }
};

/// A copy of an expert in one of the V replica slots of a rank, for one cell.
struct Copy {
  ExpertId expert;
  RankId rank;            ///< global
  std::int32_t slot = 0;  ///< 0..V-1
  auto operator<=>(const Copy&) const = default;
};

/// `tokens` of `expert` held by `source` are computed by `rank`; both are in one EP group. Only for
/// replicated experts.
struct SplitEntry {
  ExpertId expert;
  RankId source;
  RankId rank;
  std::int32_t tokens = 0;  ///< > 0
  auto operator<=>(const SplitEntry&) const = default;
};

/// What a policy decides for one cell. Copies sorted by (expert, rank), split by (expert, source, rank), each
/// pair once.
struct CellPlan {
  std::vector<Copy> copies;
  std::vector<SplitEntry> split;
  std::int64_t folded = 0;  ///< copies that the policy wanted on a rank that holds the expert already
};

/// The replicated part of a plan.
struct Plan {
  PlanHeader header;
  Placement placement;                    ///< (L, E)
  Placement previous;                     ///< (L, E) before this step
  std::vector<ExpertId> slot_expert;      ///< (L, P, C), invalid where empty
  std::vector<std::int32_t> micro_batch;  ///< (S)
  std::vector<std::int32_t> source_rank;  ///< (S)

  std::int64_t sequences() const { return static_cast<std::int64_t>(micro_batch.size()); }
};

/// A contiguous range of cells of a plan, with CSR lists and the tables of the same cells.
/// Offsets are local: they start at 0, whatever the first cell.
struct PlanCells {
  Range cells;
  std::vector<std::int64_t> copy_offset{0};  ///< (cells+1)
  std::vector<Copy> copies;
  std::vector<std::int64_t> split_offset{0};  ///< (cells+1)
  std::vector<SplitEntry> split;
  std::vector<std::int32_t> transfer;  ///< (cells, W, P) assignments, source to rank of its group; or empty
  std::vector<std::int64_t> rank_tokens;         ///< (cells, W) under the plan
  std::vector<std::int64_t> rank_tokens_static;  ///< (cells, W) under contiguous blocks

  std::span<const Copy> copies_of(std::int64_t cell) const { return list(copies, copy_offset, cell); }
  std::span<const SplitEntry> split_of(std::int64_t cell) const { return list(split, split_offset, cell); }

 private:
  template <class T>
  std::span<const T> list(const std::vector<T>& values, const std::vector<std::int64_t>& offset,
                          std::int64_t cell) const {
    const auto i = static_cast<std::size_t>(cell - cells.first);
    return std::span(values).subspan(static_cast<std::size_t>(offset[i]),
                                     static_cast<std::size_t>(offset[i + 1] - offset[i]));
  }
};

}  // namespace relibra
