#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "io/dump_file.h"
#include "io/hdf5.h"
#include "io/pending_file.h"
#include "io/shard.h"
#include "io/slab_file.h"
#include "lib/comm/agree.h"

namespace relibra::io {
namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;
constexpr std::int64_t kRoundBytes = std::int64_t{16} << 20;  // a rank's rows of one collective write
constexpr std::size_t kBlockBytes = std::size_t{8} << 20;

/// Shapes and sizes of the rows of a dump.
struct RowShape {
  std::int64_t rows, layers, top_k, id_bytes;
  bool weights;

  explicit RowShape(const RoutingSource& source)
      : rows(source.dump().sequences.total_rows()),
        layers(source.dump().header.num_layers()),
        top_k(source.dump().header.top_k),
        id_bytes(static_cast<std::int64_t>(size_of(source.id_type()))),
        weights(source.dump().header.has_weights) {}

  std::int64_t row_ids() const { return layers * top_k; }
  std::int64_t row_bytes() const { return row_ids() * (id_bytes + (weights ? 4 : 0)); }
  /// Rows of a chunk of ids: near 1 MiB, and a multiple of four, so that chunks of weights, as large in
  /// bytes, never straddle them and each chunk is written by one rank.
  std::int64_t chunk_rows() const {
    return std::max<std::int64_t>(1, kChunkBytes / (4 * row_ids() * id_bytes)) * 4;
  }
  h5::Storage storage(bool deflate, std::int64_t chunk) const {
    h5::Storage s;
    if (!deflate || rows == 0) return s;  // HDF5 knows no chunks of nothing
    s.deflate = true;
    for (std::int64_t n : {std::min(chunk, rows), layers, top_k}) s.chunk.push_back(static_cast<hsize_t>(n));
    return s;
  }
};

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

void put(const h5::File& file, const char* object, hid_t type, std::int64_t count, const void* values) {
  file.create(object, type, {count}).write_items({0, count}, type, values, h5::Transfer::independent());
}

template <class T>
void put_column(const h5::File& file, const char* object, const std::vector<T>& values) {
  put(file, object, h5::native_type<T>(), std::ssize(values), values.data());
}

void put_domain(const h5::File& file, const std::vector<std::string>& values) {
  std::size_t width = 1;
  for (const auto& value : values) width = std::max(width, value.size());
  std::vector<char> letters(width * values.size(), '\0');
  for (std::size_t i = 0; i < values.size(); ++i)
    std::memcpy(letters.data() + i * width, values[i].data(), values[i].size());
  put(file, "sequences/domain", h5::string_type(width).get(), std::ssize(values), letters.data());
}

void put_sequences(const h5::File& file, const Sequences& q) {
  put_column(file, "sequences/row_offset", q.row_offset);
  put_column(file, "sequences/num_tokens", q.num_tokens);
  const auto optional = [&](const char* object, const auto& values) {
    if (!values.empty()) put_column(file, object, values);
  };
  optional("sequences/row_start", q.row_start);
  optional("sequences/micro_batch", q.micro_batch);
  optional("sequences/source_rank", q.source_rank);
  optional("sequences/prompt_tokens", q.prompt_tokens);
  optional("sequences/group", q.group);
  if (!q.domain.empty()) put_domain(file, q.domain);
}

/// Where the rows of a contiguous file go: bytes from its start.
struct RowPlaces {
  std::int64_t ids = 0, weights = 0;
};

/// Local, rank 0: the whole file but for the rows.
RowPlaces lay_out(const PendingFile& pending, const RoutingSource& source, bool deflate) {
  const RoutingDump& dump = source.dump();
  const RowShape shape(source);
  const std::int64_t small = (std::int64_t{1} << 16) + 256 * dump.sequences.size();
  reserve(pending.path(), small + (deflate ? 0 : shape.rows * shape.row_bytes()), pending.target());
  auto file = h5::File::create(pending.path(), pending.target());
  put_attributes(file, dump.header);
  put_column(file, "layers", dump.header.layers);
  put_sequences(file, dump.sequences);
  RowPlaces places;
  places.ids = file.create("experts", native_type(source.id_type()), {shape.rows, shape.layers, shape.top_k},
                           shape.storage(deflate, shape.chunk_rows()))
                   .file_offset();
  if (shape.weights)
    places.weights = file.create("weights", h5::native_type<float>(), {shape.rows, shape.layers, shape.top_k},
                                 shape.storage(deflate, shape.chunk_rows() * shape.id_bytes / 4))
                         .file_offset();
  file.close();
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(pending.path()));
  if (!deflate) reserve(pending.path(), bytes, pending.target());
  return places;
}

// Cut between sequences, so that no sequence of a generator is made by two ranks.
Range share_between_sequences(const Comm& comm, const Sequences& sequences) {
  const auto& offset = sequences.row_offset;
  const auto border = [&](int part) {
    const auto rows = sequences.total_rows();
    const auto row = part == comm.size() ? rows : share_of(rows, part, comm.size()).first;
    return *std::lower_bound(offset.begin(), offset.end(), row);
  };
  return {border(comm.rank()), border(comm.rank() + 1)};
}

/// Each rank streams a share of the rows and writes each block as it comes.
void write_contiguous(const Comm& comm, RoutingSource& source, const PendingFile& pending,
                      const RowPlaces& places) {
  const RowShape shape(source);
  const Range mine = share_between_sequences(comm, source.dump().sequences);
  std::optional<SlabFile> file;
  agreed(comm, [&] { file.emplace(pending.path(), pending.target()); });
  const auto write = [&](const RoutingBlock& block) {
    const std::int64_t first = block.first_row * shape.row_ids(), count = block.rows * shape.row_ids();
    const auto bytes = static_cast<std::size_t>(count * shape.id_bytes);
    file->write(places.ids + first * shape.id_bytes, {static_cast<const std::byte*>(block.ids), bytes});
    if (block.weights != nullptr)
      file->write(places.weights + 4 * first,
                  std::as_bytes(std::span(block.weights, static_cast<std::size_t>(count))));
  };
  agreed(comm, [&] { source.read(std::span(&mine, mine.empty() ? 0 : 1), kBlockBytes, true, write); });
  agreed(comm, [&] { file->flush(); });
}

/// Rows of one collective write of a rank.
struct CollectedRows {
  std::vector<std::byte> ids;
  std::vector<float> weights;
};

CollectedRows collect(const Comm& comm, RoutingSource& source, Range rows) {
  CollectedRows collected;
  const std::int64_t row_ids = RowShape(source).row_ids();
  agreed(comm, [&] {
    source.read(std::span(&rows, rows.empty() ? 0 : 1), kBlockBytes, true, [&](const RoutingBlock& block) {
      const auto count = block.rows * row_ids;
      const auto* from = static_cast<const std::byte*>(block.ids);
      auto& ids = collected.ids;
      ids.insert(ids.end(), from, from + static_cast<std::size_t>(count) * size_of(block.type));
      if (block.weights != nullptr)
        collected.weights.insert(collected.weights.end(), block.weights, block.weights + count);
    });
  });
  return collected;
}

/// The rows of a file that rank 0 has laid out in filtered chunks. They are written by all ranks together,
/// since HDF5 places them by the sizes that all got.
class CompressedRows {
 public:
  CompressedRows(const Comm& comm, const RoutingSource& source, const PendingFile& pending)
      : file_(h5::File::open_for_writing(comm, pending.path(), pending.target())),
        id_type_(native_type(source.id_type())) {
    data_.push_back(file_.dataset("experts"));
    if (source.dump().header.has_weights) data_.push_back(file_.dataset("weights"));
  }

  /// Collective. A failure is not agreed, as others may be waiting inside HDF5, which can't close the file
  /// any more either.
  void write(Range rows, const CollectedRows& collected) {
    try {
      data_[0].write_items(rows, id_type_, collected.ids.data(), transfer_);
      if (data_.size() > 1)
        data_[1].write_items(rows, h5::native_type<float>(), collected.weights.data(), transfer_);
    } catch (...) {
      for (auto& data : data_) data.leak();
      file_.leak();
      throw;
    }
  }

  /// Collective.
  void close() {
    data_.clear();
    file_.close();
  }

 private:
  h5::File file_;
  hid_t id_type_;
  std::vector<h5::Dataset> data_;  // experts, and weights where there are any
  h5::Transfer transfer_ = h5::Transfer::collective();
};

/// Rounds of whole chunks; a rank without rows left takes part with none.
void write_compressed(const Comm& comm, RoutingSource& source, const PendingFile& pending) {
  const RowShape shape(source);
  const std::int64_t chunk = shape.chunk_rows(), chunks = (shape.rows + chunk - 1) / chunk;
  const Range mine = share_of(chunks, comm.rank(), comm.size());
  const std::int64_t step = std::max<std::int64_t>(1, kRoundBytes / (chunk * shape.row_bytes()));
  const std::int64_t rounds = comm.max((mine.size() + step - 1) / step);
  CompressedRows out(comm, source, pending);
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::int64_t first = std::min(mine.first + round * step, mine.last);
    const std::int64_t last = std::min(first + step, mine.last);
    const Range rows{std::min(first * chunk, shape.rows), std::min(last * chunk, shape.rows)};
    const CollectedRows collected = collect(comm, source, rows);
    // HDF5 survives no full disk (see slab_file.h), so there has to be room for what comes next.
    const std::int64_t room = comm.sum(rows.size()) * shape.row_bytes() + kChunkBytes;
    agreed(comm, [&] {
      if (comm.root()) require_free(pending.path(), room, pending.target());
    });
    out.write(rows, collected);
  }
  out.close();
}

}  // namespace

void write_dump(const Comm& comm, RoutingSource& source, const std::string& path,
                const DumpWriteOptions& options) {
  PendingFile pending(comm, path);
  RowPlaces places;
  agreed(comm, [&] {
    if (comm.root()) places = lay_out(pending, source, options.deflate);
  });
  comm.broadcast(places);
  if (options.deflate && source.dump().sequences.total_rows() > 0) {
    write_compressed(comm, source, pending);
  } else {
    write_contiguous(comm, source, pending, places);
  }
  pending.commit();
}

}  // namespace relibra::io
