#pragma once
// Rows in, counts out: every rank reads a share of the rows, counts per sequence, and the counts are
// exchanged so that each rank owns some layers. Ids are validated on the way.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/model/counts.h"
#include "lib/model/routing.h"

namespace relibra {

struct CountOptions {
  double max_missing = 0.05;                       ///< share of missing routes over which the run stops
  std::size_t block_bytes = std::size_t{8} << 20;  ///< ids read at a time
};

/// What was seen on the way, the same on every rank.
struct RoutingFindings {
  std::int64_t assignments = 0;         ///< recorded routes
  std::int64_t missing = 0;             ///< routes not recorded
  std::vector<std::string> suspicions;  ///< one line each, for people (count/suspicion.h)
};

/// Example: E = 3, K = 2, L = 1, one sequence of rows (0 2) (2 1): counts.of(0, 0) = 1 1 2, 4 assignments.
struct CountedRouting {
  SequenceCounts counts;  ///< of the layers share_of(L, rank, size)
  std::string digest;     ///< "c1-" and 16 hex digits, docs/formats.md
  RoutingFindings findings;
};

/// Collective. The result is the same for any number of ranks and threads and any block size.
///
/// Throws Fault::input, agreed, with the place (source.place_of, sequence, row of the joined dump, layer) of
/// the first fault in dump order and the number of all: an id >= E, an expert twice in the top-k of one row
/// and layer; else where the share of missing routes is over max_missing.
///
/// Memory of a rank: two blocks, a table of the sequences that its rows belong to (L, those sequences, E) and
/// its result, 4 bytes a count; (L, E) more a thread.
CountedRouting count_routing(const Comm& comm, RoutingSource& source, const CountOptions& options);

}  // namespace relibra
