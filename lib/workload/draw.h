#pragma once
// Draws beside those of base/random.h, and how streams are named.
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "lib/base/random.h"

namespace relibra::workload {

/// What a stream is for; with the seed and indices it names the stream.
enum class Purpose : std::uint64_t { lengths, terms, walk, order, prompt, sequence, holes };

inline std::uint64_t stream_key(std::uint64_t seed, Purpose purpose,
                                std::initializer_list<std::int64_t> indices) {
  std::uint64_t key = mix64(seed + 0x9E3779B97F4A7C15ull * (1 + static_cast<std::uint64_t>(purpose)));
  for (const std::int64_t i : indices)
    key = mix64(key + 0x9E3779B97F4A7C15ull + static_cast<std::uint64_t>(i));
  return key;
}

/// Gamma of the given shape and scale 1 (Marsaglia and Tsang 2000; shapes below 1 by a power of a uniform).
inline double gamma(Random& random, double shape) {
  if (shape < 1) return gamma(random, shape + 1) * std::pow(1 - random.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root, u = 1 - random.uniform();
    if (u < 1 - 0.0331 * x * x * x * x) return d * v;  // most of the time, without logarithms
    if (std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) return d * v;
  }
}

}  // namespace relibra::workload
