#pragma once
// Dealing the tokens of one micro-batch: rows in, loads and traffic out. One process, parallel over layers.
#include <cstdint>
#include <vector>

#include "lib/job/recount.h"
#include "lib/job/recount_shares.h"
#include "lib/job/recount_tally.h"

namespace relibra {

/// What the rows of a micro-batch hold besides loads.
struct DealtTotals {
  std::uint64_t digest = 0;  ///< sum of the dump digest over these sequences
  std::int64_t assignments = 0, missing = 0, invalid = 0;
};

class MicroBatchDealer {
 public:
  /// All arguments must outlive the object; `cells` are the L cells of the share's micro-batch.
  MicroBatchDealer(const RoutingDump& dump, const Plan& plan, const PlanCells& cells,
                   const MicroBatchShare& share);

  /// Takes the next rows of the share's sequences: all of their rows have to come, in ascending order.
  void take(const RoutingBlock& block);

  /// After the last row: adds loads and traffic to `tables` and tells the visitor of each bin.
  void finish(MicroBatchRecount& tables, RecountVisitor& visitor);

  DealtTotals totals() const;

 private:
  /// Tokens of one replicated expert and bin still to deal, entry by entry.
  struct Queue {
    const SplitEntry* next = nullptr;
    const SplitEntry* end = nullptr;
    std::int32_t left = 0;  ///< tokens of the entry before `next`
    std::int32_t node = 0;  ///< where they go
  };
  struct Layer {
    std::vector<std::int32_t> before_node, after_node;  ///< (E) node of block and home, inside the group
    LaneTable lanes;                                    ///< empty where a group lies inside one node
    std::vector<std::uint32_t> sequence_counts;         ///< (E+1) of the sequence at hand
    std::vector<std::int32_t> counts;                   ///< (bins, E)
    std::vector<std::uint32_t> touched;                 ///< (bins, lanes) rows that touch a node
    std::vector<std::int64_t> touched_last;             ///< (lanes) row that did, for deal_by_queue
    std::vector<SplitEntry> split;                      ///< by bin, then expert
    std::vector<std::size_t> split_offset;              ///< (bins+1)
    std::vector<std::vector<std::int32_t>> queue_of;    ///< per group empty, or (E) queue of an expert or -1
    std::vector<std::vector<Queue>> queues;             ///< per bin
    DealtTotals totals;
  };
  /// Rows of one sequence inside a block.
  struct Segment {
    std::int64_t sequence = 0;
    std::size_t bin = 0;
    std::int64_t first = 0, rows = 0;  ///< in the block
    bool ends = false;                 ///< the sequence is complete with it
  };

  void prepare(LayerId l);
  void take_own_split(LayerId l);
  void queue_copies_elsewhere(LayerId l);
  std::vector<Segment> segments_of(const RoutingBlock& block);
  template <class T>
  void deal(Layer& layer, const T* ids, const Segment& segment);
  template <class T>
  void deal_by_queue(Layer& layer, const T* ids, const Segment& segment);
  template <class T>
  void count_invalid(Layer& layer, const T* ids, const Segment& segment);
  void end_sequence(LayerId l, const Segment& segment);
  std::span<const SplitEntry> split_of(const Layer& layer, std::size_t bin) const {
    return std::span(layer.split)
        .subspan(layer.split_offset[bin], layer.split_offset[bin + 1] - layer.split_offset[bin]);
  }
  void fold_bin(LayerId l, std::size_t bin, std::span<std::int32_t> transfer,
                MicroBatchRecount& tables) const;
  void fold_traffic(LayerId l, std::size_t bin, MicroBatchRecount& tables) const;
  void transfer_of(LayerId l, std::size_t bin, std::span<std::int32_t> transfer) const;
  GroupId group_of(std::size_t bin) const { return topology_.group_of(share_.sources[bin]); }

  const RoutingDump& dump_;
  const Plan& plan_;
  const PlanCells& cells_;
  const MicroBatchShare& share_;
  const Topology topology_;
  const MissingRule missing_;
  const std::size_t experts_, top_k_;
  Placement blocks_;
  std::vector<Layer> layers_;
  std::size_t at_ = 0;  ///< sequence of the share that the next row belongs to, or one before it
};

}  // namespace relibra
