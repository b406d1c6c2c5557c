#pragma once
// Random dumps in memory, and all rows of a source, for tests.
#include <vector>

#include "lib/model/memory_source.h"

namespace relibra::test {

struct DumpShape {
  int step = 3;
  int experts = 16, top_k = 2, layers = 3;
  std::vector<std::int64_t> rows = {5, 0, 1, 7};  ///< per sequence
  IdType type = IdType::u8;
  bool weights = false, columns = false;  ///< columns: every optional one
  double holes = 0;                       ///< share of rows and layers without a route (signed types)
  std::uint64_t seed = 1;
};

/// Distinct experts in every row and layer.
MemorySource random_dump(const DumpShape& shape);

/// Rows in the order in which they were handed out.
struct AllRows {
  std::vector<int> ids;
  std::vector<float> weights;
  std::vector<Range> blocks;
};

AllRows read_rows(RoutingSource& source, const std::vector<Range>& ranges,
                  std::size_t block_bytes = std::size_t{1} << 20, bool with_weights = true);

}  // namespace relibra::test
