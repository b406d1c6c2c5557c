#include "lib/count/row_kernel.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace relibra {
namespace {

/// Clean cells, one after another. K as a constant lets the compiler unroll; the copies of what does not
/// change keep it from being read again after each store (bytes may alias anything).
template <int K, class T>
void add_cells(const T* ids, std::int64_t cells, std::int64_t top_k, std::int64_t experts,
               std::uint32_t* table) {
  const std::int64_t width = K > 0 ? K : top_k;
  for (std::int64_t cell = 0; cell < cells; ++cell, ids += width, table += experts)
    for (std::int64_t k = 0; k < width; ++k) ++table[ids[k]];
}

}  // namespace

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

RowKernel::Method RowKernel::best_method(const RowShape& shape, IdType type) {
  const bool negative_bytes_look_like_ids = type == IdType::i8 && shape.experts > 128;
  return OneHotCounter::possible(shape.top_k, shape.experts) && !negative_bytes_look_like_ids
             ? Method::one_hot
             : Method::table;
}

RowKernel::RowKernel(const RowShape& shape, IdType type, Range layers, Method method)
    : shape_(shape),
      layers_(layers),
      method_(method),
      scanner_(shape),
      repeats_(type, shape.top_k, layers.size()),
      sums_(static_cast<std::size_t>(layers.size())) {
  if (method == Method::table) return;
  bits_.emplace(static_cast<int>(layers.size()), shape.top_k, shape.experts);
  if (size_of(type) > 1) narrow_.resize(static_cast<std::size_t>(OneHotCounter::kRows * layer_ids()));
}

void RowKernel::count(const RowSpan& rows, std::uint32_t* table) {
  RoutingBlock{.type = rows.type, .ids = rows.ids}.with_ids([&](const auto* ids) {
    const auto* own = ids + layers_.first * shape_.top_k;
    method_ == Method::table ? count_by_table(own, rows, table) : count_by_bits(own, rows, table);
  });
}

template <class T>
int RowKernel::scan(const T* cell, std::int64_t row, std::int64_t layer, std::uint32_t* table) {
  std::uint32_t* counts = table == nullptr ? nullptr : table + layer * shape_.experts;
  return scanner_.scan(cell, row, static_cast<std::int32_t>(layers_.first + layer), tally_,
                       [&](std::int64_t id) {
                         if (counts != nullptr) ++counts[id];
                       });
}

template <class T>
void RowKernel::count_by_table(const T* ids, const RowSpan& rows, std::uint32_t* table) {
  const auto add = shape_.top_k == 8 ? add_cells<8, T> : add_cells<0, T>;
  for (std::int64_t r = 0; r < rows.rows; ++r, ids += shape_.row_ids()) {
    if (all_in_range(ids, layer_ids(), shape_.experts) && !repeats_.any(ids)) {
      add(ids, layers_.size(), shape_.top_k, shape_.experts, table);
      continue;
    }
    for (std::int64_t l = 0; l < layers_.size(); ++l)
      scan(ids + l * shape_.top_k, rows.first_row + r, l, table);
  }
}

template <class T>
void RowKernel::count_by_bits(const T* ids, const RowSpan& rows, std::uint32_t* table) {
  for (std::int64_t at = 0; at < rows.rows; at += OneHotCounter::kTileRows) {
    Tile<T> tile{.ids = ids + at * shape_.row_ids(),
                 .first_row = rows.first_row + at,
                 .rows = static_cast<int>(std::min<std::int64_t>(OneHotCounter::kTileRows, rows.rows - at))};
    for (int r = 0; r < tile.rows; r += OneHotCounter::kRows) {
      const auto present = add_rows(tile.ids + r * shape_.row_ids(), tile.first_row + r,
                                    std::min(OneHotCounter::kRows, tile.rows - r), table);
      tile.present[static_cast<std::size_t>(r / OneHotCounter::kRows)] = present;
      tile.by_bits += std::popcount(present);
    }
    bits_->take(table, sums_);
    const auto expected = static_cast<std::uint32_t>(tile.by_bits * shape_.top_k);
    if (std::any_of(sums_.begin(), sums_.end(), [=](std::uint32_t sum) { return sum != expected; }))
      explain(tile);
  }
}

/// Adds up to 16 rows to the bits; returns which. Where E is 256 no byte is left to stand for what is not an
/// expert, so rows of wider types that have such ids are counted id by id.
template <class T>
std::uint32_t RowKernel::add_rows(const T* ids, std::int64_t first_row, int rows, std::uint32_t* table) {
  std::uint32_t present = (std::uint32_t{1} << rows) - 1;
  if constexpr (sizeof(T) == 1) {
    bits_->add(reinterpret_cast<const std::uint8_t*>(ids), shape_.row_ids(), present);
  } else {
    for (int r = 0; r < rows; ++r) {
      const T* row = ids + r * shape_.row_ids();
      if (narrow(row, layer_ids(), narrow_.data() + r * layer_ids()) || shape_.experts < 256) continue;
      present &= ~(std::uint32_t{1} << r);
      for (std::int64_t l = 0; l < layers_.size(); ++l) scan(row + l * shape_.top_k, first_row + r, l, table);
    }
    bits_->add(narrow_.data(), layer_ids(), present);
  }
  return present;
}

/// Finds out why a layer's sum is not K * rows. Rows with ids that are no experts are looked at first, since
/// missing routes explain most; what is still unexplained is a repeated id somewhere in the layer.
template <class T>
void RowKernel::explain(const Tile<T>& tile) {
  std::vector<std::int64_t> missing(sums_.size());
  std::vector<bool> looked_at(static_cast<std::size_t>(tile.rows));
  const auto cell = [&](int r, std::int64_t l) { return tile.ids + r * shape_.row_ids() + l * shape_.top_k; };
  for (int r = 0; r < tile.rows; ++r) {
    looked_at[static_cast<std::size_t>(r)] =
        !tile.has(r) || !all_in_range(cell(r, 0), layer_ids(), shape_.experts);
    if (!tile.has(r) || !looked_at[static_cast<std::size_t>(r)]) continue;
    for (std::int64_t l = 0; l < layers_.size(); ++l)
      missing[static_cast<std::size_t>(l)] += scan(cell(r, l), tile.first_row + r, l, nullptr);
  }
  const std::int64_t expected = std::int64_t{tile.by_bits} * shape_.top_k;
  for (std::int64_t l = 0; l < layers_.size(); ++l) {
    if (sums_[static_cast<std::size_t>(l)] + missing[static_cast<std::size_t>(l)] == expected) continue;
    for (int r = 0; r < tile.rows; ++r)
      if (!looked_at[static_cast<std::size_t>(r)]) scan(cell(r, l), tile.first_row + r, l, nullptr);
  }
}

}  // namespace relibra
