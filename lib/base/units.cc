#include "lib/base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

#include "lib/base/error.h"

namespace relibra {
namespace {

struct Unit {
  std::string_view suffix;
  double factor;
};

constexpr std::array<Unit, 8> kSizes{{{"k", 0x1p10},
                                      {"K", 0x1p10},
                                      {"m", 0x1p20},
                                      {"M", 0x1p20},
                                      {"g", 0x1p30},
                                      {"G", 0x1p30},
                                      {"t", 0x1p40},
                                      {"T", 0x1p40}}};
constexpr std::array<Unit, 4> kTimes{{{"s", 1}, {"ms", 1e-3}, {"m", 60}, {"h", 3600}}};
constexpr std::array<Unit, 1> kShares{{{"%", 0.01}}};

double parse(std::string_view text, std::string_view option, std::span<const Unit> units, const char* what) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && std::isfinite(value) && value >= 0) {
    const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
    if (suffix.empty()) return value;
    for (const Unit& unit : units)
      if (unit.suffix == suffix) return value * unit.factor;
  }
  throw_usage({.where = std::string(option), .expected = what, .found = "'" + std::string(text) + "'"});
}

std::string print(const char* format, double value, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return std::string(text) + " " + unit;
}

std::string three_digits(double value, const char* unit) {
  return print(value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f", value, unit);
}

}  // namespace

std::int64_t parse_size(std::string_view text, std::string_view option) {
  const double value = parse(text, option, kSizes, "a number such as 4096, 4k or 128M");
  if (value >= 0x1p62)
    throw_usage({.where = std::string(option), .expected = "less than 2^62", .found = std::string(text)});
  return std::llround(value);
}

double parse_seconds(std::string_view text, std::string_view option) {
  return parse(text, option, kTimes, "a time such as 5, 5s, 200ms or 2m");
}

double parse_share(std::string_view text, std::string_view option) {
  constexpr const char* what = "a share such as 0.01, 1% or 1/16";
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return parse(text, option, kShares, what);
  const double below = parse(text.substr(slash + 1), option, {}, what);
  if (below == 0) throw_usage({.where = std::string(option), .expected = what, .found = std::string(text)});
  return parse(text.substr(0, slash), option, {}, what) / below;
}

std::string format_bytes(double bytes) {
  if (bytes < 1000) return print("%.0f", bytes, "B");
  constexpr std::array<const char*, 5> units{"kB", "MB", "GB", "TB", "PB"};
  std::size_t u = 0;
  for (bytes /= 1000; bytes >= 999.5 && u + 1 < units.size(); ++u) bytes /= 1000;
  return three_digits(bytes, units[u]);
}

std::string format_seconds(double seconds) {
  if (seconds < 999.5e-6) return three_digits(seconds * 1e6, "us");
  if (seconds < 0.9995) return three_digits(seconds * 1e3, "ms");
  if (seconds < 99.95) return three_digits(seconds, "s");
  const auto whole = std::llround(seconds);
  char text[64];
  std::snprintf(text, sizeof text, "%lld m %02lld s", whole / 60, whole % 60);
  return text;
}

std::string format_count(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, " ");
  return digits;
}

}  // namespace relibra
