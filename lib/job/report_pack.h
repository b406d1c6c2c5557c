#pragma once
// Integers and text in the form in which the page of `relibra report` carries them.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace relibra {

/// zlib's format (RFC 1950), which browsers unpack as "deflate", in base64. Throws Fault::environment.
std::string deflate_base64(std::string_view bytes);

/// {"count", "width", "data"}: `width` bytes a value, as few as the largest needs, lowest first; the lowest
/// bytes of all values stand before the next ones, because bytes of one kind pack better; then
/// deflate_base64. Values must be 0 .. 2^53-1, what a number of JavaScript holds.
///
/// Example: 1 258 3: width 2, bytes 1 2 3 0 1 0 before they are deflated.
nlohmann::ordered_json pack_integers(std::span<const std::int64_t> values);

}  // namespace relibra
