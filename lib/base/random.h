#pragma once
// Random numbers that are the same on every machine: splitmix64 for seeding and hashing, xoshiro256** for
// streams (Blackman and Vigna, https://prng.di.unimi.it). The standard library's distributions differ between
// libraries, so the few needed ones are here.
#include <cmath>
#include <cstdint>

namespace relibra {

/// The finaliser of splitmix64; also the `mix` of the dump digest (docs/formats.md).
constexpr std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// A 64-bit stream. Streams of different (seed, stream) are independent for our purposes, so that work keyed
/// by an index (a layer, a sequence) draws the same numbers whichever rank or thread does it.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) {
    std::uint64_t z = mix64(seed ^ 0x9E3779B97F4A7C15ull) ^ mix64(stream + 0xD1B54A32D192ED03ull);
    for (auto& word : state_) word = mix64(z += 0x9E3779B97F4A7C15ull);
  }

  std::uint64_t next() {
    const std::uint64_t result = rotate(state_[1] * 5, 7) * 9, t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  /// Uniform in [0, bound), bound > 0; by multiplication, bias below bound / 2^64.
  std::uint32_t below(std::uint32_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint32_t>((static_cast<Wide>(next()) * bound) >> 64);
  }

  /// Standard normal, polar method without the second value.
  double normal() {
    for (;;) {
      const double u = 2 * uniform() - 1, v = 2 * uniform() - 1, s = u * u + v * v;
      if (s > 0 && s < 1) return u * std::sqrt(-2 * std::log(s) / s);
    }
  }

 private:
  static constexpr std::uint64_t rotate(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  std::uint64_t state_[4];
};

}  // namespace relibra
