#pragma once
// Which process recounts which (micro-batch, source rank) bins.
#include <cstdint>
#include <vector>

#include "lib/model/plan.h"
#include "lib/model/routing.h"

namespace relibra {

/// The bins of one process in one micro-batch. Tokens of one bin stay together, because a split deals them in
/// row order.
struct MicroBatchShare {
  MicroBatchId micro_batch;
  std::vector<RankId> sources;          ///< ascending
  std::vector<std::int32_t> sequences;  ///< of these sources, ascending
  std::vector<std::int32_t> bin;        ///< index into `sources` of each sequence
  int first = 0, last = 0;              ///< processes that have a share of the micro-batch; `first` owns it

  bool shared() const { return first != last; }
};

/// What process `rank` of `size` does, by ascending micro-batch. Bins in order of (micro-batch, source) are
/// cut into runs of nearly equal rows; micro-batches without sequences are owned by someone too. Local: every
/// process computes the same. Micro-batches and sources must be in range.
///
/// Example: two micro-batches, four sequences of 10 rows on sources 0 0 1 1, in micro-batches 0 1 0 1; two
/// processes: process 0 has micro-batch 0, process 1 micro-batch 1. Three: 0 has bins (0,0) (0,1), 1 has
/// (1,0), 2 has (1,1), and process 1 owns micro-batch 1.
std::vector<MicroBatchShare> share_bins(const Plan& plan, const Sequences& sequences, int rank, int size);

}  // namespace relibra
