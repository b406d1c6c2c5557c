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
  std::int64_t assignments = 0;  ///< recorded routes
  std::int64_t missing = 0;      ///< routes not recorded
  std::vector<std::string>
      suspicions;  ///< one line each, for people: constant layers, dominant experts, rows 0..K-1
};

struct CountedRouting {
  SequenceCounts counts;  ///< of the layers share_of(L, rank, size)
  std::string digest;     ///< "c1-" and 16 hex digits, docs/formats.md
  RoutingFindings findings;
};

/// Collective. Throws Fault::input, agreed, with file-independent place (sequence, row, layer) of the first
/// fault and the number of all: an id >= E, an id twice in a row, more missing routes than allowed.
CountedRouting count_routing(const Comm& comm, RoutingSource& source, const CountOptions& options);

}  // namespace relibra
