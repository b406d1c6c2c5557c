#pragma once
// Arithmetic on sixteen floats at a time, for the inner loops of the search. Private to planning's .cc files.
#include "lib/planning/bins.h"

// One version of a function for each vector width, chosen when the program starts. All do the same operations
// on the same 16 lanes in the same order, without fused multiply-add, so all decide alike. A lambda inside
// such a function would not be cloned: write loops out.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define RELIBRA_ANY_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define RELIBRA_ANY_WIDTH
#endif

namespace relibra {

using Vector = float __attribute__((vector_size(64), may_alias));

inline const Vector* vectors_of(const Lanes* lanes) {
  return reinterpret_cast<const Vector*>(lanes);
}
inline Vector* vectors_of(Lanes* lanes) {
  return reinterpret_cast<Vector*>(lanes);
}

/// Sums of the lanes of x and of y, always by halves: lane k with k+8, then k+4, k+2, k+1.
[[gnu::always_inline]] inline void sums_of(const Vector& x, const Vector& y, float& sum_x, float& sum_y) {
  Vector s = __builtin_shufflevector(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
             __builtin_shufflevector(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  s += __builtin_shufflevector(s, s, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  s += __builtin_shufflevector(s, s, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  s += __builtin_shufflevector(s, s, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  sum_x = s[0];
  sum_y = s[8];
}

[[gnu::always_inline]] inline float sum_of(const Vector& x) {
  float sum, same;
  sums_of(x, x, sum, same);
  return sum;
}

[[gnu::always_inline]] inline void raise_to(Vector& x, const Vector& y) {
  x = x > y ? x : y;
}

}  // namespace relibra
