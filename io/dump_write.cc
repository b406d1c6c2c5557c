#include <algorithm>
#include <cstring>
#include <utility>

#include "io/dump_file.h"
#include "io/hdf5.h"
#include "io/pending_file.h"
#include "lib/comm/agree.h"

namespace relibra::io {
namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;
constexpr std::int64_t kRoundBytes = std::int64_t{16} << 20;  // a rank's rows of one collective write
constexpr std::size_t kBlockBytes = std::size_t{8} << 20;

hid_t id_type(IdType type) {
  switch (type) {
    case IdType::u8:
      return h5::native_type<std::uint8_t>();
    case IdType::i8:
      return h5::native_type<std::int8_t>();
    case IdType::u16:
      return h5::native_type<std::uint16_t>();
    case IdType::i16:
      return h5::native_type<std::int16_t>();
    case IdType::i32:
      break;
  }
  return h5::native_type<std::int32_t>();
}

void put_attributes(const h5::File& file, const RoutingHeader& header) {
  file.put_string("format", "relibra.routing");
  file.put_int32("version", 1);
  file.put_int64("step", header.step);
  file.put_int32("num_experts", header.num_experts);
  file.put_int32("top_k", header.top_k);
  file.put_string("id_space", "logical");
  if (header.num_micro_batches) file.put_int32("num_micro_batches", *header.num_micro_batches);
  if (header.optimizer_steps != 1) file.put_int32("optimizer_steps", header.optimizer_steps);
  if (header.missing_id) {
    const bool small = std::in_range<std::int32_t>(*header.missing_id);
    small ? file.put_int32("missing_id", *header.missing_id)
          : file.put_int64("missing_id", *header.missing_id);
  }
  if (!header.model.empty()) file.put_string("model", header.model);
  if (!header.producer.empty()) file.put_string("producer", header.producer);
}

// Every rank creates, rank 0 writes.
void put(const Comm& comm, const h5::File& file, const char* object, hid_t type, std::int64_t count,
         const void* values) {
  agreed(comm, [&] {
    const auto data = file.create(object, type, {count});
    if (comm.root()) data.write_items({0, count}, type, values, h5::Transfer::independent());
  });
}

template <class T>
void put_column(const Comm& comm, const h5::File& file, const char* object, const std::vector<T>& values) {
  put(comm, file, object, h5::native_type<T>(), std::ssize(values), values.data());
}

void put_domain(const Comm& comm, const h5::File& file, const std::vector<std::string>& values) {
  std::size_t width = 1;
  for (const auto& value : values) width = std::max(width, value.size());
  std::vector<char> letters(width * values.size(), '\0');
  for (std::size_t i = 0; i < values.size(); ++i)
    std::memcpy(letters.data() + i * width, values[i].data(), values[i].size());
  put(comm, file, "sequences/domain", h5::string_type(width).get(), std::ssize(values), letters.data());
}

void put_sequences(const Comm& comm, const h5::File& file, const Sequences& q) {
  put_column(comm, file, "sequences/row_offset", q.row_offset);
  put_column(comm, file, "sequences/num_tokens", q.num_tokens);
  const auto optional = [&](const char* object, const auto& values) {
    if (!values.empty()) put_column(comm, file, object, values);
  };
  optional("sequences/row_start", q.row_start);
  optional("sequences/micro_batch", q.micro_batch);
  optional("sequences/source_rank", q.source_rank);
  optional("sequences/prompt_tokens", q.prompt_tokens);
  optional("sequences/group", q.group);
  if (!q.domain.empty()) put_domain(comm, file, q.domain);
}

/// /experts and /weights of a new file.
class RowsOut {
 public:
  RowsOut(const Comm& comm, const h5::File& file, RoutingSource& source, bool deflate)
      : comm_(comm), source_(source), rows_(source.dump().sequences.total_rows()) {
    const auto& header = source.dump().header;
    const std::int64_t layers = header.num_layers(), top_k = header.top_k;
    row_values_ = layers * top_k;
    const auto id_bytes = static_cast<std::int64_t>(size_of(source.id_type()));
    // Chunks of ids are a multiple of four rows, so that chunks of weights, as large in bytes, never straddle
    // them: each chunk is written by one rank.
    chunk_rows_ = std::max<std::int64_t>(1, kChunkBytes / (4 * row_values_ * id_bytes)) * 4;
    const auto storage = [&](std::int64_t chunk_rows) {
      h5::Storage s;
      if (!deflate || rows_ == 0) return s;  // HDF5 knows no chunks of nothing
      s.deflate = true;
      for (std::int64_t n : {std::min(chunk_rows, rows_), layers, top_k})
        s.chunk.push_back(static_cast<hsize_t>(n));
      return s;
    };
    type_ = id_type(source.id_type());
    data_.push_back(file.create("experts", type_, {rows_, layers, top_k}, storage(chunk_rows_)));
    if (header.has_weights)
      data_.push_back(file.create("weights", h5::native_type<float>(), {rows_, layers, top_k},
                                  storage(chunk_rows_ * id_bytes / 4)));
  }

  /// Each rank streams a share of the rows, cut between sequences so that none is produced by two ranks, and
  /// writes each block as it comes: contiguous rows need no exchange.
  void write_contiguous() const {
    const auto transfer = h5::Transfer::independent();
    const Range mine = share_between_sequences();
    agreed(comm_, [&] {
      source_.read(std::span(&mine, mine.empty() ? 0 : 1), kBlockBytes, true, [&](const RoutingBlock& block) {
        const Range rows{block.first_row, block.first_row + block.rows};
        data_[0].write_items(rows, type_, block.ids, transfer);
        if (block.weights != nullptr)
          data_[1].write_items(rows, h5::native_type<float>(), block.weights, transfer);
      });
    });
  }

  /// Filtered chunks are written collectively: HDF5 places them by the sizes that all ranks got. Rounds of
  /// whole chunks; a rank without rows left takes part with none.
  void write_chunked() const {
    const auto transfer = h5::Transfer::collective();
    const auto id_bytes = static_cast<std::int64_t>(size_of(source_.id_type()));
    const std::int64_t chunks = (rows_ + chunk_rows_ - 1) / chunk_rows_;
    const Range mine = share_of(chunks, comm_.rank(), comm_.size());
    const std::int64_t step = std::max<std::int64_t>(1, kRoundBytes / (chunk_rows_ * row_values_ * id_bytes));
    const std::int64_t rounds = comm_.max((mine.size() + step - 1) / step);
    std::vector<std::byte> ids;
    std::vector<float> weights;
    for (std::int64_t round = 0; round < rounds; ++round) {
      const std::int64_t first = std::min(mine.first + round * step, mine.last);
      const std::int64_t last = std::min(first + step, mine.last);
      const Range rows{std::min(first * chunk_rows_, rows_), std::min(last * chunk_rows_, rows_)};
      collect(rows, ids, weights);
      agreed(comm_, [&] { data_[0].write_items(rows, type_, ids.data(), transfer); });
      if (data_.size() > 1)
        agreed(comm_,
               [&] { data_[1].write_items(rows, h5::native_type<float>(), weights.data(), transfer); });
    }
  }

 private:
  Range share_between_sequences() const {
    const auto& offset = source_.dump().sequences.row_offset;
    const auto border = [&](int part) {
      const auto row = part == comm_.size() ? rows_ : share_of(rows_, part, comm_.size()).first;
      return *std::lower_bound(offset.begin(), offset.end(), row);
    };
    return {border(comm_.rank()), border(comm_.rank() + 1)};
  }

  void collect(Range rows, std::vector<std::byte>& ids, std::vector<float>& weights) const {
    ids.clear();
    weights.clear();
    agreed(comm_, [&] {
      source_.read(std::span(&rows, rows.empty() ? 0 : 1), kBlockBytes, true, [&](const RoutingBlock& block) {
        const auto values = block.rows * row_values_;
        const auto* from = static_cast<const std::byte*>(block.ids);
        ids.insert(ids.end(), from, from + static_cast<std::size_t>(values) * size_of(block.type));
        if (block.weights != nullptr) weights.insert(weights.end(), block.weights, block.weights + values);
      });
    });
  }

  const Comm& comm_;
  RoutingSource& source_;
  std::int64_t rows_, row_values_ = 0, chunk_rows_ = 0;
  hid_t type_ = H5I_INVALID_HID;
  std::vector<h5::Dataset> data_;  // experts, and weights where there are any
};

}  // namespace

void write_dump(const Comm& comm, RoutingSource& source, const std::string& path,
                const DumpWriteOptions& options) {
  PendingFile pending(comm, path);
  const RoutingDump& dump = source.dump();
  std::optional<h5::File> file;
  agreed(comm, [&] { file.emplace(h5::File::create(comm, pending.path(), path)); });
  agreed(comm, [&] { put_attributes(*file, dump.header); });
  put_column(comm, *file, "layers", dump.header.layers);
  put_sequences(comm, *file, dump.sequences);
  {
    std::optional<RowsOut> rows;
    agreed(comm, [&] { rows.emplace(comm, *file, source, options.deflate); });
    if (options.deflate) {
      rows->write_chunked();
    } else {
      rows->write_contiguous();
    }
  }
  agreed(comm, [&] { file->flush_and_close(); });
  pending.commit();
}

}  // namespace relibra::io
