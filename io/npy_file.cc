#include "io/npy_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "lib/base/error.h"
#include "lib/comm/agree.h"
#include "lib/model/blocks.h"

namespace relibra::io {
namespace {

/// Header of a .npy file (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
struct NpyHeader {
  std::string type;  ///< letter and bytes: "i2", "u1"
  std::vector<std::int64_t> shape;
  std::int64_t data_at = 0;
};

std::size_t width(const NpyHeader& header) {
  return static_cast<std::size_t>(header.type[1] - '0');
}

std::int64_t elements(const NpyHeader& header) {
  std::int64_t count = 1;
  for (const std::int64_t n : header.shape) count *= n;
  return count;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (const std::int64_t n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  return text + ")";
}

/// What follows 'key': in the header's dictionary, up to `end`.
std::string value_of(const std::string& dictionary, const std::string& key, char end,
                     const std::string& path) {
  const auto at = dictionary.find("'" + key + "':");
  const auto last = at == std::string::npos ? at : dictionary.find(end, at + key.size() + 3);
  if (last == std::string::npos)
    throw_input({.where = path, .expected = "a .npy header with '" + key + "'", .found = dictionary});
  return dictionary.substr(at + key.size() + 3, last - at - key.size() - 3);
}

std::vector<std::int64_t> parse_shape(const std::string& text, const std::string& path) {
  std::vector<std::int64_t> shape;
  for (std::size_t at = 0; (at = text.find_first_of("0123456789", at)) != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    if (end - at > 15 || shape.size() == 8)
      throw_input({.where = path, .expected = "a shape of up to 8 lengths", .found = text});
    shape.push_back(std::stoll(text.substr(at, end - at)));
    at = end;
  }
  double count = 1;
  for (const std::int64_t n : shape) count *= static_cast<double>(n);
  if (count > 0x1p58) throw_input({.where = path, .expected = "less than 2^58 elements", .found = text});
  return shape;
}

NpyHeader read_header(std::ifstream& file, const std::string& path) {
  std::array<unsigned char, 12> start{};
  file.read(reinterpret_cast<char*>(start.data()), 10);
  if (!file || std::memcmp(start.data(), "\x93NUMPY", 6) != 0)
    throw_input({.where = path, .expected = "a .npy file", .found = "another beginning"});
  std::size_t length = start[8] + std::size_t{start[9]} * 256, at = 10;
  if (start[6] >= 2) {
    file.read(reinterpret_cast<char*>(start.data()) + 10, 2);
    length += (start[10] + std::size_t{start[11]} * 256) << 16;
    at = 12;
  }
  if (length > 65536)
    throw_input({.where = path, .expected = "a .npy header of at most 64 kB", .found = "more"});
  std::string dictionary(length, ' ');
  file.read(dictionary.data(), static_cast<std::streamsize>(length));
  if (!file) throw_input({.where = path, .expected = "a whole .npy header", .found = "the end of the file"});

  if (value_of(dictionary, "fortran_order", ',', path).find("False") == std::string::npos)
    throw_input({.where = path,
                 .expected = "C order (fortran_order False)",
                 .found = "Fortran order",
                 .advice = "save numpy.ascontiguousarray(array)"});
  const std::string type = value_of(dictionary, "descr", ',', path);
  NpyHeader header{.shape = parse_shape(value_of(dictionary, "shape", ')', path), path),
                   .data_at = static_cast<std::int64_t>(at + length)};
  constexpr std::array<const char*, 8> known{"u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"};
  for (const char* name : known)
    if (type.find(name) != std::string::npos && type.find('>') == std::string::npos) header.type = name;
  if (header.type.empty())
    throw_input({.where = path,
                 .expected = "little-endian integers",
                 .found = type,
                 .advice = "save array.astype('<i4')"});
  return header;
}

/// Opens, reads the header, and checks that the data are all there.
NpyHeader open(std::ifstream& file, const std::string& path) {
  file.open(path, std::ios::binary);
  if (!file)
    throw_input({.where = path, .expected = "a .npy file that can be read", .found = std::strerror(errno)});
  NpyHeader header = read_header(file, path);
  file.seekg(0, std::ios::end);
  const std::int64_t there = static_cast<std::int64_t>(file.tellg()) - header.data_at;
  const std::int64_t needed = elements(header) * static_cast<std::int64_t>(width(header));
  if (there < needed)
    throw_input({.where = path,
                 .expected = std::to_string(needed) + " bytes of data",
                 .found = std::to_string(there)});
  return header;
}

void read_bytes(std::ifstream& file, const std::string& path, std::int64_t at, std::span<std::byte> to) {
  file.clear();
  file.seekg(at);
  file.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()));
  if (!file) throw_environment({.where = path, .found = "a read that failed at byte " + std::to_string(at)});
}

/// One little-endian integer of `bytes` bytes, signed or not.
std::int64_t integer_at(const std::byte* data, std::size_t bytes, bool is_signed) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::to_integer<std::uint64_t>(data[i]) << (8 * i);
  const auto unused = 64 - 8 * bytes;
  return is_signed ? static_cast<std::int64_t>(value << unused) >> unused : static_cast<std::int64_t>(value);
}

bool is_npy(const std::string& path) {
  std::array<char, 6> start{};
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw_input({.where = path, .expected = "a file that can be read", .found = std::strerror(errno)});
  return file.read(start.data(), 6) && std::memcmp(start.data(), "\x93NUMPY", 6) == 0;
}

std::vector<std::int64_t> read_text_lengths(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::int64_t> lengths;
  for (std::int64_t value = 0; file >> value;) lengths.push_back(value);
  if (!file.eof())
    throw_input({.where = path,
                 .expected = "a .npy file, or text with one length a line",
                 .found = "something else after " + std::to_string(lengths.size()) + " numbers"});
  return lengths;
}

std::vector<std::int64_t> read_npy_lengths(const std::string& path) {
  std::ifstream file;
  const NpyHeader header = open(file, path);
  if (header.shape.size() != 1)
    throw_input({.where = path,
                 .expected = "one length a sequence, shape (S)",
                 .found = "shape " + shape_text(header.shape)});
  std::vector<std::byte> data(static_cast<std::size_t>(elements(header)) * width(header));
  read_bytes(file, path, header.data_at, data);
  std::vector<std::int64_t> lengths;
  for (std::size_t at = 0; at < data.size(); at += width(header))
    lengths.push_back(integer_at(&data[at], width(header), header.type[0] == 'i'));
  return lengths;
}

std::vector<std::int64_t> read_lengths(const std::string& path) {
  auto lengths = is_npy(path) ? read_npy_lengths(path) : read_text_lengths(path);
  constexpr std::int64_t kMostRows = std::int64_t{1} << 58;  // as elements of an array, so that sums are safe
  std::int64_t total = 0;
  for (const std::int64_t length : lengths)
    if (length < 0 || length > kMostRows || (total += length) > kMostRows)
      throw_input({.where = path, .expected = "lengths of at least 0", .found = std::to_string(length)});
  return lengths;
}

IdType stored_type(const std::string& npy) {
  if (npy == "u1") return IdType::u8;
  if (npy == "i1") return IdType::i8;
  if (npy == "u2") return IdType::u16;
  if (npy == "i2") return IdType::i16;
  return IdType::i32;
}

class NpySource final : public RoutingSource {
 public:
  NpySource(const Comm& comm, const NpyRouting& what) : comm_(comm), path_(what.ids) {
    npy_ = open(file_, path_);
    if (npy_.shape.size() != 3)
      throw_input({.where = path_,
                   .expected = "shape (rows, layers, top-k)",
                   .found = "shape " + shape_text(npy_.shape)});
    RoutingHeader& header = dump_.header;
    header.step = what.step;
    header.num_experts = what.num_experts;
    header.top_k = static_cast<int>(npy_.shape[2]);
    header.producer = what.producer;
    for (int l = 0; l < npy_.shape[1]; ++l) header.layers.push_back(what.first_layer + l);
    if (what.num_experts < header.top_k || header.top_k < 1 || header.layers.empty())
      throw_usage(
          {.where = "--experts",
           .expected = "at least top-k experts, one layer, one expert a token",
           .found = std::to_string(what.num_experts) + " experts for shape " + shape_text(npy_.shape)});
    fill_sequences(what);
  }

  const RoutingDump& dump() const override { return dump_; }
  IdType id_type() const override { return stored_type(npy_.type); }

  void read(std::span<const Range> ranges, std::size_t block_bytes, bool, const BlockFn& take) override {
    agreed(comm_, [&] {
      const std::int64_t row = npy_.shape[1] * npy_.shape[2] * static_cast<std::int64_t>(width(npy_));
      std::vector<std::byte> data;
      for (const Range& piece : cut(ranges, rows_per_block(dump_.header, width(npy_), block_bytes))) {
        data.resize(static_cast<std::size_t>(piece.size() * row));
        read_bytes(file_, path_, npy_.data_at + piece.first * row, data);
        bytes_read_ += piece.size() * row;
        if (npy_.type == "u4" || width(npy_) == 8) narrow(data);
        take({.first_row = piece.first, .rows = piece.size(), .type = id_type(), .ids = data.data()});
      }
    });
  }

 private:
  void fill_sequences(const NpyRouting& what) {
    const auto lengths = what.rows.empty() ? std::vector{npy_.shape[0]} : read_lengths(what.rows);
    Sequences& sequences = dump_.sequences;
    for (const std::int64_t rows : lengths) {
      sequences.row_offset.push_back(sequences.row_offset.back() + rows);
      sequences.num_tokens.push_back(rows + (what.last_token ? 1 : 0));
    }
    if (sequences.total_rows() != npy_.shape[0])
      throw_input(
          {.where = what.rows,
           .expected = "lengths that sum to the " + std::to_string(npy_.shape[0]) + " rows of " + path_,
           .found = std::to_string(sequences.total_rows())});
  }

  /// Wider integers in place to i32.
  void narrow(std::vector<std::byte>& data) const {
    const std::size_t bytes = width(npy_), count = data.size() / bytes;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t wide = integer_at(&data[bytes * i], bytes, npy_.type[0] == 'i');
      // A u64 beyond the positive i64 shows as negative.
      if (!std::in_range<std::int32_t>(wide) || (npy_.type == "u8" && wide < 0))
        throw_input({.where = path_, .expected = "expert ids", .found = std::to_string(wide)});
      const auto id = static_cast<std::int32_t>(wide);
      std::memcpy(&data[4 * i], &id, sizeof id);
    }
  }

  Comm comm_;
  std::string path_;
  std::ifstream file_;
  NpyHeader npy_;
  RoutingDump dump_;
};

}  // namespace

std::unique_ptr<RoutingSource> open_npy(const Comm& comm, const NpyRouting& what) {
  std::unique_ptr<RoutingSource> source;
  agreed(comm, [&] { source = std::make_unique<NpySource>(comm, what); });
  return source;
}

}  // namespace relibra::io
