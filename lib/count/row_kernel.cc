#include "lib/count/row_kernel.h"

#include <algorithm>
#include <tuple>

namespace relibra {

void RowTally::add_fault(const Place& place) {
  ++(place.kind == Kind::out_of_range ? out_of_range : repeated);
  const auto key = [](const Place& p) { return std::tuple(p.row, p.layer, p.kind); };
  if (key(place) < key(first)) first = place;
}

void RowTally::operator+=(const RowTally& other) {
  missing += other.missing;
  out_of_range += other.out_of_range;
  repeated += other.repeated;
  if (std::tuple(other.first.row, other.first.layer, other.first.kind) <
      std::tuple(first.row, first.layer, first.kind))
    first = other.first;
}

RowKernel::RowKernel(const RowShape& shape, Range layers)
    : shape_(shape), layers_(layers), seen_(static_cast<std::size_t>(shape.experts)) {}

void RowKernel::count(const RowSpan& rows, std::uint32_t* table) {
  RoutingBlock{.type = rows.type, .ids = rows.ids}.with_ids(
      [&](const auto* ids) { count_scalar(ids, rows, table); });
}

template <class T>
void RowKernel::count_scalar(const T* ids, const RowSpan& rows, std::uint32_t* table) {
  for (std::int64_t r = 0; r < rows.rows; ++r)
    for (std::int64_t layer = layers_.first; layer < layers_.last; ++layer) {
      const T* cell = ids + r * shape_.row_ids() + layer * shape_.top_k;
      std::uint32_t* counts = table + (layer - layers_.first) * shape_.experts;
      if (++stamp_ == 0) {
        std::fill(seen_.begin(), seen_.end(), 0);
        stamp_ = 1;
      }
      for (int k = 0; k < shape_.top_k; ++k) {
        const auto id = static_cast<std::int64_t>(cell[k]);
        const RowTally::Place place{rows.first_row + r, static_cast<std::int32_t>(layer),
                                    RowTally::Kind::out_of_range, id};
        if (id < 0 || id == shape_.missing_id) {
          ++tally_.missing;
        } else if (id >= shape_.experts) {
          tally_.add_fault(place);
        } else if (seen_[static_cast<std::size_t>(id)] == stamp_) {
          tally_.add_fault({place.row, place.layer, RowTally::Kind::repeated, id});
        } else {
          seen_[static_cast<std::size_t>(id)] = stamp_;
          ++counts[id];
        }
      }
    }
}

}  // namespace relibra
