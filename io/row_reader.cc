#include "io/row_reader.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "lib/model/blocks.h"

namespace relibra::io {

std::vector<Range> pieces_to_read(std::span<const Range> ranges, const RoutingHeader& header,
                                  const RowStorage& storage, std::size_t block_bytes) {
  const std::size_t id_bytes = size_of(storage.id_type);
  const std::int64_t most = rows_per_block(header, id_bytes, block_bytes), chunk = storage.chunk_rows;
  if (chunk == 0) return cut(ranges, most);
  const std::int64_t step = chunk * std::max<std::int64_t>(1, most / chunk);
  std::vector<Range> pieces;
  for (const Range& range : ranges)
    for (std::int64_t at = range.first, end = 0; at < range.last; at = end) {
      end = std::min(range.last, (at / chunk) * chunk + step);
      pieces.push_back({at, end});
    }
  return pieces;
}

RowReader::RowReader(h5::File file, const RoutingHeader& header, const RowStorage& storage, bool with_weights,
                     h5::Transfer transfer)
    : file_(std::move(file)),
      ids_file_(file_.dataset("experts")),
      transfer_(std::move(transfer)),
      storage_(storage),
      missing_id_(header.missing_id.value_or(-1)),
      row_values_(static_cast<std::size_t>(header.num_layers()) * static_cast<std::size_t>(header.top_k)),
      top_k_(header.top_k) {
  if (with_weights && header.has_weights) weights_file_.push_back(file_.dataset("weights"));
}

void RowReader::reserve(std::int64_t rows) {
  const std::size_t count = values_of(rows);
  ids_.resize(std::max(ids_.size(), count * size_of(storage_.id_type)));
  if (storage_.wide) wide_.resize(std::max(wide_.size(), count));
  if (!weights_file_.empty()) weights_.resize(std::max(weights_.size(), count));
}

void RowReader::read(Range rows) {
  reserve(rows.size());
  rows_ = rows;
  std::exception_ptr failure;
  try {
    if (storage_.wide) {
      ids_file_.read_items(rows, h5::native_type<std::int64_t>(), wide_.data(), transfer_);
    } else {
      ids_file_.read_items(rows, native_type(storage_.id_type), ids_.data(), transfer_);
    }
  } catch (const Error&) {
    failure = std::current_exception();
  }
  if (!weights_file_.empty())
    weights_file_.front().read_items(rows, h5::native_type<float>(), weights_.data(), transfer_);
  if (failure) std::rethrow_exception(failure);
  if (storage_.wide) narrow(rows);
}

// Ids that mean "no route" may lie outside of 32 bits; they become -1.
void RowReader::narrow(Range rows) {
  const std::size_t count = values_of(rows.size());
  auto* narrow = reinterpret_cast<std::int32_t*>(ids_.data());
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t id = wide_[i];
    if (id > std::numeric_limits<std::int32_t>::max() && id != missing_id_)
      throw_input({.where = ids_file_.where(),
                   .expected = "ids that fit 32 bits",
                   .found = std::to_string(id) + " in row " +
                            std::to_string(rows.first + static_cast<std::int64_t>(i / row_values_)) +
                            ", layer " + std::to_string(i % row_values_ / static_cast<std::size_t>(top_k_))});
    narrow[i] = id < 0 || id == missing_id_ ? -1 : static_cast<std::int32_t>(id);
  }
}

void RowReader::hand_out(std::int64_t most, std::int64_t file_start,
                         const RoutingSource::BlockFn& take) const {
  for (std::int64_t at = rows_.first; at < rows_.last; at += most) {
    const std::size_t skipped = values_of(at - rows_.first);
    take({.first_row = file_start + at,
          .rows = std::min(most, rows_.last - at),
          .type = storage_.id_type,
          .ids = ids_.data() + skipped * size_of(storage_.id_type),
          .weights = weights_file_.empty() ? nullptr : weights_.data() + skipped});
  }
}

std::int64_t RowReader::bytes_of(Range rows) const {
  const std::size_t value_bytes = size_of(storage_.id_type) + (weights_file_.empty() ? 0 : sizeof(float));
  return static_cast<std::int64_t>(values_of(rows.size()) * value_bytes);
}

}  // namespace relibra::io
