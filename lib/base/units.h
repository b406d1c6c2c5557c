#pragma once
// Numbers as people write them on a command line, and as they read them in a summary.
#include <cstdint>
#include <string>
#include <string_view>

namespace relibra {

/// A count or a number of bytes: "4096", "4k", "128M", "1.5G". k, M, G, T are powers of 1024, as in
/// nccl-tests and as trainers count tokens. Throws Fault::usage naming `option`.
std::int64_t parse_size(std::string_view text, std::string_view option);

/// Seconds: "5", "5s", "200ms", "2m", "1h". Throws Fault::usage naming `option`.
double parse_seconds(std::string_view text, std::string_view option);

/// A share: "0.01", "1%" or "1/16". Throws Fault::usage naming `option`.
double parse_share(std::string_view text, std::string_view option);

/// "812 B", "37.7 MB", "8.2 GB": powers of 1000, three digits.
std::string format_bytes(double bytes);

/// "340 us", "12.4 ms", "3.20 s", "2 m 05 s".
std::string format_seconds(double seconds);

/// "0", "12 345 678": digits in groups of three.
std::string format_count(std::int64_t count);

}  // namespace relibra
