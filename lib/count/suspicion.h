#pragma once
// Routing that is legal but hardly real: said with numbers, never refused.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/model/counts.h"
#include "lib/model/routing.h"

namespace relibra {

/// Collective; the same lines on every rank, at most one for each of three kinds, naming the first layer and
/// how many there are:
/// * layers whose rows all chose the same set of K experts (two rows or more);
/// * layers where one expert is in more than half of the rows, and twice as often as it would be in balance;
/// * `counting_rows`, the rows that are 0 .. K-1 in every layer, as some producers pad.
std::vector<std::string> find_suspicions(const Comm& comm, const RoutingDump& dump,
                                         const SequenceCounts& counts, std::int64_t counting_rows);

/// Local: how many of the block's rows are 0 .. K-1 in every layer. Rows [first, last) of the block.
std::int64_t rows_counting_up(const RoutingBlock& block, const RoutingHeader& header, Range rows);

}  // namespace relibra
