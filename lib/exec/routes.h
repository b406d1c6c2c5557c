#pragma once
// What an execution needs of a dump: the routes of chosen micro-batches and layers, by the rank that holds
// the tokens. Small enough to keep: 8 bytes an assignment.
#include <cstdint>
#include <vector>

#include "lib/base/ids.h"

namespace relibra::exec {

/// Routes of one source rank's tokens in one cell, tokens in row order of the joined dump.
struct CellRoutes {
  int top_k = 0;
  std::vector<ExpertId> expert;  ///< (tokens, K), invalid where no route was recorded
  std::vector<float> weight;     ///< (tokens, K) gate weights

  std::int64_t tokens() const { return top_k ? static_cast<std::int64_t>(expert.size()) / top_k : 0; }
  std::int64_t assignments() const {
    std::int64_t count = 0;
    for (const ExpertId e : expert) count += e.valid();
    return count;
  }
};

/// The micro-batches and layers that are executed, each ascending.
struct Selection {
  std::vector<MicroBatchId> micro_batches;
  std::vector<LayerId> layers;

  std::size_t cells() const { return micro_batches.size() * layers.size(); }
  /// Selected cells are numbered micro-batch major, by position in the lists.
  std::size_t cell(std::size_t micro_batch, std::size_t layer) const {
    return micro_batch * layers.size() + layer;
  }
};

/// All that one source rank holds.
struct SourceRoutes {
  RankId rank;
  std::vector<std::vector<std::int64_t>>
      rows;                       ///< by selected micro-batch: row in the joined dump of each token
  std::vector<CellRoutes> cells;  ///< by selected cell
};

}  // namespace relibra::exec
