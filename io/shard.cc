#include "io/shard.h"

#include <algorithm>
#include <limits>

#include "io/dump_file.h"

namespace relibra::io {
namespace {

constexpr std::int64_t kMostExperts = 1 << 20;  // far over any model; a damaged count must not size a table

// Throws unless `good(i)` holds for all i in [0, count): with the first that does not, and the number of all.
template <class Good, class Found>
void require_each(const std::string& where, const char* item, std::int64_t count, Good&& good,
                  const std::string& expected, Found&& found) {
  std::int64_t first = -1, bad = 0;
  for (std::int64_t i = 0; i < count; ++i)
    if (!good(static_cast<std::size_t>(i)) && bad++ == 0) first = i;
  if (bad == 0) return;
  throw_input({.where = where,
               .expected = expected,
               .found = found(static_cast<std::size_t>(first)) + " at " + item + " " + std::to_string(first) +
                        " (" + std::to_string(bad) + " such)"});
}

int int_attribute(const h5::File& file, const char* name, std::int64_t least, std::int64_t most) {
  const std::int64_t value = file.get_int(name);
  if (value < least || value > most)
    throw_input({.where = file.name() + ":" + name,
                 .expected = std::to_string(least) + " to " + std::to_string(most),
                 .found = std::to_string(value)});
  return static_cast<int>(value);
}

void require_format(const h5::File& file) {
  const auto format = file.find_string("format");
  if (format != "relibra.routing")
    throw_input({.where = file.name(),
                 .expected = "a routing dump (attribute format = \"relibra.routing\")",
                 .found = format ? "format \"" + *format + "\"" : "no such attribute",
                 .advice = "`relibra import` makes dumps of other formats"});
  if (const auto version = file.get_int("version"); version != 1)
    throw_input({.where = file.name() + ":version",
                 .expected = "1",
                 .found = std::to_string(version),
                 .advice = "a newer relibra may read it"});
}

void read_header(const h5::File& file, Shard& shard) {
  constexpr std::int64_t kMostInt = std::numeric_limits<int>::max();
  auto& header = shard.header;
  header.step = file.get_int("step");
  header.num_experts = int_attribute(file, "num_experts", 1, kMostExperts);
  header.top_k = int_attribute(file, "top_k", 1, header.num_experts);
  if (file.find_int("optimizer_steps"))
    header.optimizer_steps = int_attribute(file, "optimizer_steps", 1, kMostInt);
  if (file.find_int("num_micro_batches")) {
    header.num_micro_batches = int_attribute(file, "num_micro_batches", 1, kMostInt);
    if (*header.num_micro_batches % header.optimizer_steps != 0)
      throw_input({.where = file.name() + ":num_micro_batches",
                   .expected = "a multiple of optimizer_steps " + std::to_string(header.optimizer_steps),
                   .found = std::to_string(*header.num_micro_batches)});
  }
  header.missing_id = file.find_int("missing_id");
  if (header.missing_id && *header.missing_id >= 0 && *header.missing_id < header.num_experts)
    throw_input({.where = file.name() + ":missing_id",
                 .expected = "an id outside 0.." + std::to_string(header.num_experts - 1),
                 .found = std::to_string(*header.missing_id)});
  if (const auto space = file.find_string("id_space"); space && *space != "logical")
    throw_input({.where = file.name() + ":id_space",
                 .expected = "\"logical\"",
                 .found = "\"" + *space + "\"",
                 .advice = "ids of physical slots depend on the rollout's own placement; "
                           "record logical expert ids, before the engine maps them to slots"});
  header.model = file.find_string("model").value_or("");
  header.producer = file.find_string("producer").value_or("");
}

void read_shard_number(const h5::File& file, Shard& shard) {
  const auto number = file.find_int("shard"), of = file.find_int("num_shards");
  if (!number && !of) return;
  shard.shard = file.get_int("shard");
  shard.num_shards = int_attribute(file, "num_shards", 1, std::numeric_limits<int>::max());
  if (shard.shard < 0 || shard.shard >= shard.num_shards)
    throw_input({.where = file.name() + ":shard",
                 .expected = "0.." + std::to_string(shard.num_shards - 1) + " (num_shards is " +
                             std::to_string(shard.num_shards) + ")",
                 .found = std::to_string(shard.shard)});
}

void read_layers(const h5::File& file, Shard& shard) {
  const auto data = file.dataset("layers");
  data.require_shape({-1});
  auto& layers = shard.header.layers = data.integers<std::int32_t>();
  if (layers.empty()) throw_input({.where = data.where(), .expected = "at least one layer", .found = "none"});
  const auto rising = [&](std::size_t i) { return layers[i] > (i == 0 ? -1 : layers[i - 1]); };
  require_each(data.where(), "index", static_cast<std::int64_t>(layers.size()), rising,
               "strictly increasing numbers from 0",
               [&](std::size_t i) { return std::to_string(layers[i]); });
}

void read_row_offset(const h5::File& file, Shard& shard) {
  const auto data = file.dataset("sequences/row_offset");
  data.require_shape({-1});
  auto& offset = shard.sequences.row_offset = data.integers<std::int64_t>();
  if (offset.empty() || offset.front() != 0)
    throw_input({.where = data.where(),
                 .expected = "offsets that start at 0",
                 .found = offset.empty() ? "no offset" : std::to_string(offset.front())});
  require_each(
      data.where(), "sequence", shard.sequences.size(),
      [&](std::size_t i) { return offset[i + 1] >= offset[i]; }, "offsets that never fall",
      [&](std::size_t i) { return std::to_string(offset[i + 1]) + " after " + std::to_string(offset[i]); });
}

template <class T>
void read_column(const h5::File& file, const char* name, Column bit, Shard& shard, std::vector<T>& into) {
  const std::string object = std::string("sequences/") + name;
  if (!file.has(object)) return;
  const auto data = file.dataset(object);
  data.require_shape({shard.sequences.size()});
  if constexpr (std::is_same_v<T, std::string>) {
    into = data.strings();
  } else {
    into = data.integers<T>();
  }
  shard.columns |= bit;
}

template <class T>
void require_not_negative(const std::string& where, const std::vector<T>& values) {
  require_each(
      where, "sequence", static_cast<std::int64_t>(values.size()),
      [&](std::size_t i) { return values[i] >= 0; }, "no negative value",
      [&](std::size_t i) { return std::to_string(values[i]); });
}

// Tokens default to start + rows and must cover them.
void settle_tokens(const h5::File& file, Shard& shard) {
  auto& q = shard.sequences;
  const auto at = [&](const char* name) { return file.name() + ":/sequences/" + name; };
  require_not_negative(at("row_start"), q.row_start);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto start = [&](std::size_t i) { return q.row_start.empty() ? 0 : q.row_start[i]; };
  const auto rows = [&](std::size_t i) { return q.rows(static_cast<std::int64_t>(i)); };
  require_each(
      at("row_start"), "sequence", q.size(), [&](std::size_t i) { return start(i) <= kMost - rows(i); },
      "a position in a sequence", [&](std::size_t i) { return std::to_string(start(i)); });
  if ((shard.columns & kNumTokens) == 0) {
    for (std::size_t i = 0; i + 1 < q.row_offset.size(); ++i) q.num_tokens.push_back(start(i) + rows(i));
    return;
  }
  require_each(
      at("num_tokens"), "sequence", q.size(),
      [&](std::size_t i) { return q.num_tokens[i] >= start(i) + rows(i); },
      "at least row_start + recorded rows",
      [&](std::size_t i) {
        return std::to_string(q.num_tokens[i]) + " with " + std::to_string(start(i) + rows(i)) + " recorded";
      });
}

void read_columns(const h5::File& file, Shard& shard) {
  auto& q = shard.sequences;
  read_column(file, "row_start", kRowStart, shard, q.row_start);
  read_column(file, "num_tokens", kNumTokens, shard, q.num_tokens);
  read_column(file, "micro_batch", kMicroBatch, shard, q.micro_batch);
  read_column(file, "source_rank", kSourceRank, shard, q.source_rank);
  read_column(file, "prompt_tokens", kPromptTokens, shard, q.prompt_tokens);
  read_column(file, "group", kGroup, shard, q.group);
  read_column(file, "domain", kDomain, shard, q.domain);
  settle_tokens(file, shard);
  require_not_negative(file.name() + ":/sequences/micro_batch", q.micro_batch);
  require_not_negative(file.name() + ":/sequences/source_rank", q.source_rank);
  if (!shard.header.num_micro_batches) return;
  require_each(
      file.name() + ":/sequences/micro_batch", "sequence", static_cast<std::int64_t>(q.micro_batch.size()),
      [&](std::size_t i) { return q.micro_batch[i] < *shard.header.num_micro_batches; },
      "less than the attribute num_micro_batches " + std::to_string(*shard.header.num_micro_batches),
      [&](std::size_t i) { return std::to_string(q.micro_batch[i]); });
}

// A filter whose plugin is missing would only show at the first row.
void require_filters(const h5::Dataset& data, hid_t creation) {
  for (int i = 0; i < H5Pget_nfilters(creation); ++i) {
    unsigned flags = 0;
    std::size_t parameters = 0;
    char name[64] = "";
    const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &parameters,
                                               nullptr, sizeof name, name, nullptr);
    if (filter >= 0 && H5Zfilter_avail(filter) > 0) continue;
    throw_input(
        {.where = data.where(),
         .expected = "filters that this HDF5 has",
         .found = "filter " + std::to_string(filter) + " (" + name + ")",
         .advice = "install its plugin and set HDF5_PLUGIN_PATH, or rewrite with h5repack -f GZIP=1"});
  }
}

void describe_storage(const h5::Dataset& data, RowStorage& storage) {
  const h5::Id creation(h5::check(H5Dget_create_plist(data.get()), Fault::input, data.where()), H5Pclose);
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  require_filters(data, creation.get());
  storage.parallel = storage.parallel && layout != H5D_VIRTUAL && H5Pget_external_count(creation.get()) == 0;
  if (layout != H5D_CHUNKED || H5Pget_nfilters(creation.get()) == 0) return;
  std::vector<hsize_t> chunk(data.shape().size());
  h5::check(H5Pget_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data()), Fault::input,
            data.where());
  storage.chunk_rows = std::max(storage.chunk_rows, static_cast<std::int64_t>(chunk[0]));
}

void read_experts(const h5::File& file, Shard& shard) {
  const auto data = file.dataset("experts");
  const auto& type = data.type();
  if (type.kind != h5::ElementType::Kind::integer || type.bytes > 8)
    throw_input({.where = data.where(), .expected = "integer expert ids", .found = type.text()});
  data.require_shape({-1, shard.header.num_layers(), shard.header.top_k});
  if (data.length() != shard.sequences.total_rows())
    throw_input({.where = file.name() + ":/sequences/row_offset",
                 .expected = "offsets that end at the " + std::to_string(data.length()) + " rows of /experts",
                 .found = std::to_string(shard.sequences.total_rows())});
  auto& storage = shard.storage;
  storage.wide = type.bytes > 4 || (type.bytes == 4 && !type.is_signed);
  if (type.bytes == 1) storage.id_type = type.is_signed ? IdType::i8 : IdType::u8;
  if (type.bytes == 2) storage.id_type = type.is_signed ? IdType::i16 : IdType::u16;
  describe_storage(data, storage);
}

void read_weights(const h5::File& file, Shard& shard) {
  shard.header.has_weights = file.has("weights");
  if (!shard.header.has_weights) return;
  const auto data = file.dataset("weights");
  const auto& type = data.type();
  if (type.kind != h5::ElementType::Kind::floating || (type.bytes != 2 && type.bytes != 4))
    throw_input({.where = data.where(), .expected = "16-bit or 32-bit floats", .found = type.text()});
  data.require_shape({shard.sequences.total_rows(), shard.header.num_layers(), shard.header.top_k});
  describe_storage(data, shard.storage);
}

}  // namespace

hid_t native_type(IdType type) {
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

Shard read_shard(const std::string& file_name) {
  const auto file = h5::File::open(file_name);
  Shard shard;
  shard.file = file_name;
  require_format(file);
  read_header(file, shard);
  read_shard_number(file, shard);
  read_layers(file, shard);
  read_row_offset(file, shard);
  read_experts(file, shard);
  read_weights(file, shard);
  read_columns(file, shard);
  return shard;
}

DumpPart part_of(const std::string& file_name) {
  const auto file = h5::File::open(file_name);
  require_format(file);
  Shard shard;
  read_shard_number(file, shard);
  return {.step = file.get_int("step"), .shard = shard.shard, .num_shards = shard.num_shards};
}

}  // namespace relibra::io
