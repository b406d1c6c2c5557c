#include "lib/model/memory_source.h"

#include <limits>
#include <utility>

#include "lib/base/error.h"
#include "lib/model/blocks.h"

namespace relibra {
namespace {

template <class T>
MemorySource narrowed(RoutingDump dump, const std::vector<int>& ids, std::vector<float> weights) {
  std::vector<T> stored;
  stored.reserve(ids.size());
  for (int id : ids) {
    if (!std::in_range<T>(id))
      throw_input({.where = "routing in memory",
                   .expected = "ids from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
                               std::to_string(std::numeric_limits<T>::max()),
                   .found = std::to_string(id)});
    stored.push_back(static_cast<T>(id));
  }
  return MemorySource(std::move(dump), stored, std::move(weights));
}

void require_size(const char* what, std::size_t found, std::size_t expected) {
  if (found != expected)
    throw_input({.where = std::string("routing in memory, ") + what,
                 .expected = std::to_string(expected) + " values",
                 .found = std::to_string(found)});
}

}  // namespace

MemorySource::MemorySource(RoutingDump dump, IdType type, const void* ids, std::size_t count,
                           std::vector<float> weights)
    : dump_(std::move(dump)), type_(type), weights_(std::move(weights)) {
  auto& sequences = dump_.sequences;
  const auto expected = static_cast<std::size_t>(sequences.total_rows()) *
                        static_cast<std::size_t>(dump_.header.num_layers()) *
                        static_cast<std::size_t>(dump_.header.top_k);
  require_size("ids", count, expected);
  dump_.header.has_weights = !weights_.empty();
  if (dump_.header.has_weights) require_size("weights", weights_.size(), expected);
  if (sequences.num_tokens.empty())
    for (std::int64_t i = 0; i < sequences.size(); ++i) sequences.num_tokens.push_back(sequences.rows(i));
  require_size("num_tokens", sequences.num_tokens.size(), static_cast<std::size_t>(sequences.size()));
  const auto* bytes = static_cast<const std::byte*>(ids);
  if (count > 0) ids_.assign(bytes, bytes + count * size_of(type));
}

MemorySource MemorySource::with_type(RoutingDump dump, IdType type, const std::vector<int>& ids,
                                     std::vector<float> weights) {
  switch (type) {
    case IdType::u8:
      return narrowed<std::uint8_t>(std::move(dump), ids, std::move(weights));
    case IdType::i8:
      return narrowed<std::int8_t>(std::move(dump), ids, std::move(weights));
    case IdType::u16:
      return narrowed<std::uint16_t>(std::move(dump), ids, std::move(weights));
    case IdType::i16:
      return narrowed<std::int16_t>(std::move(dump), ids, std::move(weights));
    case IdType::i32:
      break;
  }
  return narrowed<std::int32_t>(std::move(dump), ids, std::move(weights));
}

void MemorySource::read(std::span<const Range> ranges, std::size_t block_bytes, bool with_weights,
                        const BlockFn& take) {
  const auto row =
      static_cast<std::size_t>(dump_.header.num_layers()) * static_cast<std::size_t>(dump_.header.top_k);
  const bool weighted = with_weights && dump_.header.has_weights;
  for (const Range& piece : cut(ranges, rows_per_block(dump_.header, size_of(type_), block_bytes))) {
    const auto first = static_cast<std::size_t>(piece.first) * row;
    take({.first_row = piece.first,
          .rows = piece.size(),
          .type = type_,
          .ids = ids_.data() + first * size_of(type_),
          .weights = weighted ? weights_.data() + first : nullptr});
    bytes_read_ +=
        piece.size() * static_cast<std::int64_t>(row * (size_of(type_) + (weighted ? sizeof(float) : 0)));
  }
}

}  // namespace relibra
