#pragma once
// Runs of 4 rows that share a token type: each has a stream of random numbers of its own, so that any run can
// be drawn alone, and 16 of them side by side.
#include <array>
#include <bit>
#include <cstdint>

#include "lib/base/random.h"
#include "lib/workload/alias.h"

namespace relibra::workload {

/// xoshiro128++ (Blackman and Vigna): 32 bits at a time.
struct RunRandom {
  std::array<std::uint32_t, 4> state;

  RunRandom(std::uint64_t key, std::int64_t run) {
    const std::uint64_t a = mix64(key + 0x9E3779B97F4A7C15ull * static_cast<std::uint64_t>(run + 1));
    const std::uint64_t b = mix64(a + 0xD1B54A32D192ED03ull);
    state = {static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(a >> 32),
             static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32) | 1};
  }

  std::uint32_t next() {
    const std::uint32_t result = std::rotl(state[0] + state[3], 7) + state[0], t = state[1] << 9;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= t;
    state[3] = std::rotl(state[3], 11);
    return result;
  }
};

/// How a row is drawn: an expert at a time, again where the row has it; after `patience` draws the rest of
/// the row is drawn from the experts that it lacks.
struct DrawRule {
  int top_k = 0;
  std::uint32_t patience = 0;
};

/// 16 runs side by side, for draw_runs.
struct RunBatch {
  static constexpr int kRuns = 16;
  alignas(64) std::uint32_t state[4][kRuns];        ///< of the runs' streams, after the type was drawn
  alignas(64) std::uint32_t table[kRuns];           ///< first entry of the type's table
  alignas(64) std::uint64_t rows[kTypeRun][kRuns];  ///< result: K ids a row, one a byte, first id lowest
};

/// Whether this machine has AVX-512, and rows fit into 8 bytes.
bool can_draw_runs(const AliasTables& tables, const DrawRule& rule);

/// Draws all rows of the 16 runs as drawing each alone would. Returns bits of the runs that lost patience and
/// have no result.
std::uint32_t draw_runs(const AliasTables& tables, const DrawRule& rule, RunBatch& batch);

}  // namespace relibra::workload
