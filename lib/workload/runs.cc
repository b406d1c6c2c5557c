#include "lib/workload/runs.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define RELIBRA_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define RELIBRA_AVX512_INLINE RELIBRA_AVX512 __attribute__((always_inline)) inline

namespace relibra::workload {
namespace {

// GCC 12 warns falsely of uninitialised values in the unmasked forms of some intrinsics; a full mask compiles
// to the same instruction.
constexpr __mmask8 kAll8 = 0xFF;
constexpr __mmask16 kAll16 = 0xFFFF;

struct Streams {
  __m512i s0, s1, s2, s3;
};

RELIBRA_AVX512_INLINE __m512i next(Streams& s) {
  const __m512i sum = _mm512_maskz_rol_epi32(kAll16, _mm512_add_epi32(s.s0, s.s3), 7);
  const __m512i result = _mm512_add_epi32(sum, s.s0);
  const __m512i t = _mm512_maskz_slli_epi32(kAll16, s.s1, 9);
  s.s2 = _mm512_xor_si512(s.s2, s.s0);
  s.s3 = _mm512_xor_si512(s.s3, s.s1);
  s.s1 = _mm512_xor_si512(s.s1, s.s2);
  s.s0 = _mm512_xor_si512(s.s0, s.s3);
  s.s2 = _mm512_xor_si512(s.s2, t);
  s.s3 = _mm512_maskz_rol_epi32(kAll16, s.s3, 11);
  return result;
}

/// AliasTables::draw in 16 lanes.
struct Tables {
  const std::uint32_t* entries;
  __m512i first, size, alias_mask;
  __m128i index_bits, fraction_bits;

  RELIBRA_AVX512_INLINE __m512i draw(__m512i bits) const {
    const __m512i at =
        _mm512_maskz_mullo_epi32(kAll16, _mm512_maskz_srl_epi32(kAll16, bits, index_bits), size);
    const __m512i column = _mm512_maskz_srl_epi32(kAll16, at, fraction_bits);
    const __m512i entry = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), kAll16,
                                                      _mm512_add_epi32(column, first), entries, 4);
    const __mmask16 keep = _mm512_cmplt_epu32_mask(_mm512_maskz_sll_epi32(kAll16, at, index_bits),
                                                   _mm512_maskz_andnot_epi32(kAll16, alias_mask, entry));
    return _mm512_mask_mov_epi32(_mm512_and_si512(alias_mask, entry), keep, column);
  }
};

/// The rows being drawn in 8 lanes: ids so far as bytes, which bytes hold ids, and how many bits that is.
struct Rows {
  __m512i ids, filled, bits;

  /// Lanes whose row has the id already.
  RELIBRA_AVX512_INLINE __mmask8 have(__m512i id) const {
    const __m512i low_byte = _mm512_set4_epi32(0x08080808, 0x08080808, 0, 0);
    const __m512i everywhere = _mm512_shuffle_epi8(id, low_byte);
    return _mm512_test_epi64_mask(_mm512_movm_epi8(_mm512_cmpeq_epi8_mask(everywhere, ids)), filled);
  }
  RELIBRA_AVX512_INLINE void append(__mmask8 lanes, __m512i id) {
    ids = _mm512_mask_or_epi64(ids, lanes, ids, _mm512_maskz_sllv_epi64(kAll8, id, bits));
    filled = _mm512_mask_or_epi64(filled, lanes, _mm512_maskz_slli_epi64(kAll8, filled, 8),
                                  _mm512_set1_epi64(0xFF));
    bits = _mm512_mask_add_epi64(bits, lanes, bits, _mm512_set1_epi64(8));
  }
  RELIBRA_AVX512_INLINE void restart(__mmask8 lanes) {
    const auto others = static_cast<__mmask8>(~lanes);
    ids = _mm512_maskz_mov_epi64(others, ids);
    filled = _mm512_maskz_mov_epi64(others, filled);
    bits = _mm512_maskz_mov_epi64(others, bits);
  }
};

constexpr __mmask16 joined(__mmask8 low, __mmask8 high) {
  return static_cast<__mmask16>(low | high << 8);
}

}  // namespace

bool can_draw_runs(const AliasTables& tables, const DrawRule& rule) {
  return rule.top_k <= 8 && tables.size() <= 256 && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

RELIBRA_AVX512 std::uint32_t draw_runs(const AliasTables& tables, const DrawRule& rule, RunBatch& batch) {
  Streams streams{_mm512_load_si512(batch.state[0]), _mm512_load_si512(batch.state[1]),
                  _mm512_load_si512(batch.state[2]), _mm512_load_si512(batch.state[3])};
  const int bits = tables.index_bits();
  const Tables drawn{tables.entries(),
                     _mm512_load_si512(batch.table),
                     _mm512_set1_epi32(tables.size()),
                     _mm512_set1_epi32((1 << bits) - 1),
                     _mm_cvtsi32_si128(bits),
                     _mm_cvtsi32_si128(32 - bits)};
  const __m512i zero = _mm512_setzero_si512(), full = _mm512_set1_epi64(8 * rule.top_k);
  const __m512i patience = _mm512_set1_epi32(static_cast<int>(rule.patience));
  Rows low{zero, zero, zero}, high{zero, zero, zero};
  __m512i tries = zero;
  __mmask16 active = kAll16, impatient = 0;
  int row_of[RunBatch::kRuns] = {};
  while (active != 0) {
    const __m512i id = drawn.draw(next(streams));
    const __m512i id_low = _mm512_maskz_cvtepu32_epi64(kAll8, _mm512_maskz_extracti64x4_epi64(kAll8, id, 0));
    const __m512i id_high = _mm512_maskz_cvtepu32_epi64(kAll8, _mm512_maskz_extracti64x4_epi64(kAll8, id, 1));
    low.append(static_cast<__mmask8>(~low.have(id_low)), id_low);
    high.append(static_cast<__mmask8>(~high.have(id_high)), id_high);
    tries = _mm512_add_epi32(tries, _mm512_set1_epi32(1));
    const __mmask8 done_low = _mm512_cmpeq_epi64_mask(low.bits, full);
    const __mmask8 done_high = _mm512_cmpeq_epi64_mask(high.bits, full);
    const __mmask16 done = joined(done_low, done_high);
    const auto lost = static_cast<__mmask16>(_mm512_cmpge_epu32_mask(tries, patience) & ~done);
    if ((done | lost) == 0) continue;
    alignas(64) std::uint64_t ids[RunBatch::kRuns];
    _mm512_store_si512(ids, low.ids);
    _mm512_store_si512(ids + 8, high.ids);
    impatient = static_cast<__mmask16>(impatient | (lost & active));
    active = static_cast<__mmask16>(active & ~lost);
    for (unsigned lanes = done & active; lanes != 0; lanes &= lanes - 1) {
      const int lane = std::countr_zero(lanes);
      batch.rows[row_of[lane]][lane] = ids[lane];
      if (++row_of[lane] == kTypeRun) active = static_cast<__mmask16>(active & ~(1u << lane));
    }
    low.restart(done_low);
    high.restart(done_high);
    tries = _mm512_maskz_mov_epi32(static_cast<__mmask16>(~done), tries);
  }
  return impatient;
}

#else

namespace relibra::workload {

bool can_draw_runs(const AliasTables&, const DrawRule&) {
  return false;
}
std::uint32_t draw_runs(const AliasTables&, const DrawRule&, RunBatch&) {
  return ~std::uint32_t{0};
}

#endif

}  // namespace relibra::workload
