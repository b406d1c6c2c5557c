#include "lib/job/report_pack.h"

#include <zlib.h>

#include <algorithm>
#include <cassert>

#include "lib/base/error.h"

namespace relibra {
namespace {

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t here = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < here ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i) text += i <= here ? kDigits[group >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

}  // namespace

std::string deflate_base64(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string packed(size, '\0');
  const int code =
      compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), Z_DEFAULT_COMPRESSION);
  if (code != Z_OK)
    throw_environment({.where = "zlib",
                       .expected = "memory to pack " + std::to_string(bytes.size()) + " bytes",
                       .found = "status " + std::to_string(code)});
  packed.resize(size);
  return base64(packed);
}

nlohmann::ordered_json pack_integers(std::span<const std::int64_t> values) {
  std::int64_t largest = 0;
  for (std::int64_t value : values) {
    assert(value >= 0 && value < std::int64_t{1} << 53);
    largest = std::max(largest, value);
  }
  int width = 1;
  while (largest >> (8 * width)) ++width;
  std::string bytes;
  bytes.reserve(values.size() * static_cast<std::size_t>(width));
  for (int plane = 0; plane < width; ++plane)
    for (std::int64_t value : values) bytes += static_cast<char>(value >> (8 * plane) & 255);
  return {{"count", values.size()}, {"width", width}, {"data", deflate_base64(bytes)}};
}

}  // namespace relibra
