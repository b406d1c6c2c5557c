#include "lib/count/onehot.h"

#include <algorithm>
#include <numeric>

#if defined(__x86_64__)
#include <immintrin.h>

#define RELIBRA_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")))
#define RELIBRA_AVX512_INLINE RELIBRA_AVX512 __attribute__((always_inline)) inline

namespace relibra {
namespace {

using Lanes = OneHotCounter::Lanes;
constexpr int kPlanes = 8;
// GCC 12 warns falsely of uninitialised values in the unmasked forms of some intrinsics; a full mask compiles
// to the same instruction.
constexpr __mmask8 kAll = 0xFF;
constexpr int kXor = 0x96, kMajority = 0xE8, kOr = 0xFE;  // truth tables of vpternlog

/// One group of 8 layers in 16 rows.
struct GroupRows {
  const std::uint8_t* first;
  std::int64_t stride;
  std::uint32_t present;
  __mmask64 bytes;  ///< of the 8*K bytes of the group, those that are in the row
  const Lanes* select;
};

/// A register for each 64 experts, 8 layers in a register.
template <int W>
struct Masks {
  __m512i word[W];
};

/// The bits of one row. Shifts by 64 and more give 0, so that id xor 64w sets a bit in word w alone.
template <int W, int K>
RELIBRA_AVX512_INLINE Masks<W> one_hot(const GroupRows& rows, int row) {
  const bool present = (rows.present >> row & 1) != 0;
  const std::uint8_t* at = rows.first + (present ? row * rows.stride : 0);
  _mm_prefetch(at + OneHotCounter::kRows * rows.stride, _MM_HINT_T0);
  const __m512i ids = _mm512_maskz_loadu_epi8(rows.bytes, at);
  const __m512i bit = _mm512_set1_epi64(present ? 1 : 0);
  constexpr __mmask64 kLowBytes = 0x0101010101010101;
  Masks<W> masks;
  __m512i before[W];
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k) {
    const __m512i select = _mm512_load_si512(rows.select + k);
    const __m512i id = _mm512_maskz_permutexvar_epi8(kLowBytes, select, ids);
#pragma GCC unroll 4
    for (int w = 0; w < W; ++w) {
      const __m512i in_word = w == 0 ? id : _mm512_xor_si512(id, _mm512_set1_epi64(64 * w));
      const __m512i hot = _mm512_maskz_sllv_epi64(kAll, bit, in_word);
      if (k == 0)
        masks.word[w] = hot;
      else if (k % 2 == 1 && k + 1 < K)
        before[w] = hot;
      else
        masks.word[w] = k % 2 == 1 ? _mm512_or_si512(masks.word[w], hot)
                                   : _mm512_ternarylogic_epi64(masks.word[w], before[w], hot, kOr);
    }
  }
  return masks;
}

/// Adds rows [Row, Row + 2^Level) to the planes below `Level` and returns the carry, of weight 2^Level: a
/// tree of full adders (Harley and Seal).
template <int W, int K, int Level, int Row>
RELIBRA_AVX512_INLINE Masks<W> carry_of(const GroupRows& rows, Masks<W>* planes) {
  if constexpr (Level == 0) {
    return one_hot<W, K>(rows, Row);
  } else {
    const Masks<W> a = carry_of<W, K, Level - 1, Row>(rows, planes);
    const Masks<W> b = carry_of<W, K, Level - 1, Row + (1 << (Level - 1))>(rows, planes);
    Masks<W>& plane = planes[Level - 1];
    Masks<W> carry;
#pragma GCC unroll 4
    for (int w = 0; w < W; ++w) {
      carry.word[w] = _mm512_ternarylogic_epi64(plane.word[w], a.word[w], b.word[w], kMajority);
      plane.word[w] = _mm512_ternarylogic_epi64(plane.word[w], a.word[w], b.word[w], kXor);
    }
    return carry;
  }
}

template <int W, int K>
RELIBRA_AVX512 void add_group(const GroupRows& rows, Lanes* stored) {
  Masks<W> planes[4];
  for (int p = 0; p < 4; ++p)
    for (int w = 0; w < W; ++w) planes[p].word[w] = _mm512_load_si512(stored + p * W + w);
  Masks<W> carry = carry_of<W, K, 4, 0>(rows, planes);
  for (int p = 0; p < 4; ++p)
    for (int w = 0; w < W; ++w) _mm512_store_si512(stored + p * W + w, planes[p].word[w]);
  for (int p = 4; p < kPlanes; ++p)
    for (int w = 0; w < W; ++w) {
      const __m512i plane = _mm512_load_si512(stored + p * W + w);
      _mm512_store_si512(stored + p * W + w, _mm512_xor_si512(plane, carry.word[w]));
      carry.word[w] = _mm512_and_si512(plane, carry.word[w]);
    }
}

template <int W>
RELIBRA_AVX512 void add_group(int top_k, const GroupRows& rows, Lanes* stored) {
  if (top_k <= 2) return add_group<W, 2>(rows, stored);
  if (top_k <= 4) return add_group<W, 4>(rows, stored);
  if (top_k <= 6) return add_group<W, 6>(rows, stored);
  return add_group<W, 8>(rows, stored);
}

void add_group(int words, int top_k, const GroupRows& rows, Lanes* stored) {
  if (words == 1) return add_group<1>(top_k, rows, stored);
  if (words == 2) return add_group<2>(top_k, rows, stored);
  if (words == 3) return add_group<3>(top_k, rows, stored);
  return add_group<4>(top_k, rows, stored);
}

/// Adds the counters of 64 experts of one layer, `experts` of which are real, to the table; returns their
/// sum. `planes` is the word's first plane of eight, `step` lanes apart.
RELIBRA_AVX512 std::uint32_t take_word(const Lanes* planes, int step, int layer, int experts,
                                       std::uint32_t* table) {
  __m512i counters = _mm512_setzero_si512();
  for (int p = 0; p < kPlanes; ++p) {
    const __mmask64 bits = planes[p * step].word[static_cast<std::size_t>(layer)];
    counters = _mm512_mask_add_epi8(counters, bits, counters, _mm512_set1_epi8(static_cast<char>(1 << p)));
  }
  const __mmask64 real = experts >= 64 ? ~__mmask64{0} : (__mmask64{1} << experts) - 1;
  counters = _mm512_maskz_mov_epi8(real, counters);
  alignas(64) std::uint8_t bytes[64];
  _mm512_store_si512(bytes, counters);
  for (int at = 0; at < experts && at < 64; at += 16) {
    const auto lanes = static_cast<__mmask16>(real >> at);
    const __m512i add =
        _mm512_maskz_cvtepu8_epi32(lanes, _mm_load_si128(reinterpret_cast<const __m128i*>(bytes + at)));
    const __m512i old = _mm512_maskz_loadu_epi32(lanes, table + at);
    _mm512_mask_storeu_epi32(table + at, lanes, _mm512_add_epi32(old, add));
  }
  alignas(64) std::uint64_t sums[8];
  _mm512_store_si512(sums, _mm512_sad_epu8(counters, _mm512_setzero_si512()));
  return static_cast<std::uint32_t>(std::accumulate(sums, sums + 8, std::uint64_t{0}));
}

}  // namespace

bool OneHotCounter::possible(int top_k, int experts) {
  return top_k <= 8 && experts <= 256 && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi");
}

void OneHotCounter::add(const std::uint8_t* first, std::int64_t stride, std::uint32_t present) {
  for (int g = 0; g < groups(); ++g) {
    const int bytes = std::min(8, layers_ - 8 * g) * top_k_;
    const GroupRows rows{first + 8 * g * top_k_, stride, present,
                         bytes == 64 ? ~__mmask64{0} : (__mmask64{1} << bytes) - 1, select_.data()};
    add_group(words(), top_k_, rows, planes_.data() + static_cast<std::ptrdiff_t>(g) * kPlanes * words());
  }
}

void OneHotCounter::take(std::uint32_t* table, std::span<std::uint32_t> sums) {
  for (int layer = 0; layer < layers_; ++layer) {
    const Lanes* planes = planes_.data() + static_cast<std::ptrdiff_t>(layer / 8) * kPlanes * words();
    std::uint32_t sum = 0;
    for (int w = 0; w < words(); ++w)
      sum += take_word(planes + w, words(), layer % 8, experts_ - 64 * w,
                       table + static_cast<std::ptrdiff_t>(layer) * experts_ + 64 * w);
    sums[static_cast<std::size_t>(layer)] = sum;
  }
  std::fill(planes_.begin(), planes_.end(), Lanes{});
}

#else

namespace relibra {

bool OneHotCounter::possible(int, int) {
  return false;
}
void OneHotCounter::add(const std::uint8_t*, std::int64_t, std::uint32_t) {}
void OneHotCounter::take(std::uint32_t*, std::span<std::uint32_t>) {}

#endif

OneHotCounter::OneHotCounter(int layers, int top_k, int experts)
    : layers_(layers), top_k_(top_k), experts_(experts), select_{}, planes_() {
  planes_.resize(static_cast<std::size_t>(groups() * kPlanes * words()));
  for (int k = 0; k < 8; ++k)  // beyond K the last id again, which sets its bit again
    for (int layer = 0; layer < 8; ++layer)
      select_[static_cast<std::size_t>(k)].word[static_cast<std::size_t>(layer)] =
          static_cast<std::uint64_t>(layer * top_k + std::min(k, top_k - 1));
}

}  // namespace relibra
