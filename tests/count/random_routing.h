#pragma once
// Random dumps for the tests of counting, and a slow recount.
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "lib/base/random.h"
#include "lib/model/memory_source.h"

namespace relibra::test {

struct Shape {
  int experts, top_k, layers;
  std::vector<std::int64_t> rows;  ///< of each sequence
  IdType type = IdType::u8;
  double holes = 0;          ///< share of rows without any route
  double partial_holes = 0;  ///< share of routes missing one by one
  int missing = -1;          ///< the id that says so
};

inline std::vector<int> random_ids(const Shape& shape, std::uint64_t seed) {
  Random random(seed);
  std::int64_t rows = 0;
  for (const auto n : shape.rows) rows += n;
  std::vector<int> ids, experts;
  for (int e = 0; e < shape.experts; ++e) experts.push_back(e);
  for (std::int64_t r = 0; r < rows; ++r) {
    const bool hole = random.uniform() < shape.holes;
    for (int l = 0; l < shape.layers; ++l)
      for (int k = 0; k < shape.top_k; ++k) {
        const auto other = k + static_cast<int>(random.below(static_cast<std::uint32_t>(shape.experts - k)));
        std::swap(experts[static_cast<std::size_t>(k)], experts[static_cast<std::size_t>(other)]);
        const bool missing = hole || random.uniform() < shape.partial_holes;
        ids.push_back(missing ? shape.missing : experts[static_cast<std::size_t>(k)]);
      }
  }
  return ids;
}

inline MemorySource source_of(const Shape& shape, const std::vector<int>& ids) {
  RoutingDump dump;
  dump.header.num_experts = shape.experts;
  dump.header.top_k = shape.top_k;
  if (shape.missing >= 0) dump.header.missing_id = shape.missing;
  for (int l = 0; l < shape.layers; ++l) dump.header.layers.push_back(l + 3);
  for (const auto n : shape.rows) dump.sequences.row_offset.push_back(dump.sequences.row_offset.back() + n);
  return MemorySource::with_type(std::move(dump), shape.type, ids);
}

/// counts[{layer, sequence, expert}] of all recorded routes, one at a time.
using SlowCounts = std::map<std::tuple<int, std::int64_t, int>, std::uint32_t>;

inline SlowCounts slow_counts(const Shape& shape, const std::vector<int>& ids) {
  SlowCounts counts;
  std::size_t at = 0;
  for (std::size_t s = 0; s < shape.rows.size(); ++s)
    for (std::int64_t r = 0; r < shape.rows[s]; ++r)
      for (int l = 0; l < shape.layers; ++l)
        for (int k = 0; k < shape.top_k; ++k, ++at)
          if (ids[at] >= 0 && ids[at] != shape.missing) ++counts[{l, static_cast<std::int64_t>(s), ids[at]}];
  return counts;
}

}  // namespace relibra::test
