#pragma once
// A plan recounted against its dump: every token's assignments are dealt to ranks as docs/formats.md says,
// from the rows themselves. What `check` compares a plan's tables with, and where traffic figures come from.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/plan_file.h"
#include "lib/comm/comm.h"
#include "lib/model/plan.h"
#include "lib/model/routing.h"

namespace relibra {

/// A plan wherever it lives: in a file, or in memory.
struct PlanView {
  const Plan& plan;
  std::span<const Move> moves;  ///< as written; need not be right
  bool has_transfers = false;
  /// Collective, each rank its own range, may be empty: lists and tables of the cells. With `transfers` only
  /// where the plan has them.
  std::function<PlanCells(Range cells, bool transfers)> read;
};
/// The file must outlive the view.
inline PlanView view_of(const io::PlanFile& file) {
  return {.plan = file.plan(),
          .moves = file.moves(),
          .has_transfers = file.has_transfers(),
          .read = [&file](Range cells, bool transfers) { return file.read_cells(cells, transfers); }};
}

/// What one source rank does in one micro-batch, all of it seen by one process.
struct BinRecount {
  MicroBatchId micro_batch;
  RankId source;
  std::span<const std::int32_t> counts;    ///< (L, E) assignments of the source's tokens
  std::span<const std::int32_t> transfer;  ///< (L, P) the same by rank of the source's EP group
  /// (L) split entries of this source by ascending expert, in the order in which they stand; those out of
  /// range or leading out of the EP group are left out.
  std::span<const std::span<const SplitEntry>> split;
};

/// Tables of one micro-batch over all sources. One flat array, so that parts from several processes add up.
class MicroBatchRecount {
 public:
  enum Side { before = 0, after = 1 };  ///< contiguous blocks; the plan

  MicroBatchRecount(MicroBatchId micro_batch, int layers, int experts, const Topology& topology);

  MicroBatchId micro_batch() const { return micro_batch_; }
  std::int64_t& rows() { return values_[0]; }  ///< tokens, those without routes among them
  std::int64_t rows() const { return values_[0]; }
  /// (E) assignments by expert from the sources of one group.
  std::span<std::int64_t> expert_tokens(LayerId l, GroupId g) {
    return part(1 + (l.index() * groups_ + g.index()) * experts_, experts_);
  }
  /// (W) assignments a rank computes.
  std::span<std::int64_t> rank_tokens(Side s, LayerId l) {
    return part(loads_ + (s * layers_ + l.index()) * world_, world_);
  }
  std::span<std::int64_t> rank_tokens(Side s) {
    return part(loads_ + s * layers_ * world_, layers_ * world_);
  }
  /// (nodes) distinct (token, node) pairs that leave a node, and that arrive at one.
  std::span<std::int64_t> sent(Side s, LayerId l) {
    return part(traffic_ + (s * layers_ + l.index()) * 2 * nodes_, nodes_);
  }
  std::span<std::int64_t> received(Side s, LayerId l) {
    return part(traffic_ + (s * layers_ + l.index()) * 2 * nodes_ + nodes_, nodes_);
  }
  std::vector<std::int64_t>& values() { return values_; }

 private:
  std::span<std::int64_t> part(std::size_t at, std::size_t size) {
    return std::span(values_).subspan(at, size);
  }
  MicroBatchId micro_batch_;
  std::size_t layers_, experts_, groups_, world_, nodes_;
  std::size_t loads_, traffic_;
  std::vector<std::int64_t> values_;
};

/// Told what was recounted, as soon as it is complete. Calls are local, by one thread; every (micro-batch,
/// source) with sequences and every micro-batch is reported on exactly one process. `cells` are the L cells
/// of the micro-batch.
class RecountVisitor {
 public:
  virtual ~RecountVisitor() = default;
  virtual void bin(const PlanCells& cells, const BinRecount& bin) = 0;
  virtual void micro_batch(const PlanCells& cells, MicroBatchRecount& recount) = 0;
};

/// The same on every rank.
struct RecountTotals {
  std::string digest;            ///< "c1-" and 16 hex digits
  std::int64_t assignments = 0;  ///< recorded routes
  std::int64_t missing = 0;      ///< routes not recorded
  std::int64_t invalid = 0;      ///< ids >= E, which no dump may hold; counted nowhere else
};

struct RecountOptions {
  bool transfers = false;                          ///< read the plan's transfers for the visitor
  std::size_t block_bytes = std::size_t{8} << 20;  ///< ids read at a time
  std::function<void(double done)> progress = {};  ///< told the share of this process's rows, 0..1
};

/// Collective. Processes share out the (micro-batch, source) bins by rows; each streams its bins' rows, one
/// micro-batch at a time. Memory a process, besides `plan`: one block of ids, the plan's lists and tables of
/// one micro-batch, and about L*E*(16*D + 4*B) bytes for B of its sources.
///
/// The plan's homes, micro-batches and source ranks must be in range and of the dump's shape; list entries
/// may be anything. A split that does not sum to the dump's count is taken as if it were not there.
RecountTotals recount(const Comm& comm, RoutingSource& source, const PlanView& view, RecountVisitor& visitor,
                      const RecountOptions& options);

}  // namespace relibra
