#pragma once
// What the kernels of counting have in common: the shape of a row and the tally of what is wrong with rows.
#include <cstdint>
#include <limits>

#include "lib/model/routing.h"

namespace relibra {

/// What a kernel has to know of a dump. A row is (L, K) ids.
struct RowShape {
  int layers = 0;               ///< L
  int top_k = 0;                ///< K
  int experts = 0;              ///< E
  std::int64_t missing_id = 0;  ///< as MissingRule has it

  explicit RowShape(const RoutingHeader& header)
      : layers(header.num_layers()),
        top_k(header.top_k),
        experts(header.num_experts),
        missing_id(MissingRule(header).missing_id) {}

  std::int64_t row_ids() const { return std::int64_t{layers} * top_k; }
};

/// What was wrong or absent in the rows seen. Tallies add up in any order to the same value.
struct RowTally {
  enum class Kind : std::int32_t { out_of_range, repeated };
  struct Place {
    std::int64_t row = std::numeric_limits<std::int64_t>::max();  ///< of the joined dump
    std::int32_t layer = 0;
    Kind kind = Kind::out_of_range;
    std::int64_t id = 0;
  };

  std::int64_t missing = 0;       ///< routes not recorded
  std::int64_t out_of_range = 0;  ///< ids >= E that are not missing_id
  std::int64_t repeated = 0;      ///< ids that stood before in the same row and layer
  Place first;                    ///< lowest (row, layer, kind) of all faults

  std::int64_t faults() const { return out_of_range + repeated; }
  void add_fault(const Place& place);
  void operator+=(const RowTally& other);
};

/// Consecutive rows of one sequence.
struct RowSpan {
  IdType type = IdType::i32;
  const void* ids = nullptr;  ///< (rows, L, K)
  std::int64_t rows = 0;
  std::int64_t first_row = 0;  ///< in the joined dump
};

}  // namespace relibra
