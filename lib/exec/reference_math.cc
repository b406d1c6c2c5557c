// Dense products in double for the reference: plain loops, fast enough to verify steps of some GFLOP.
#include <algorithm>

#include "lib/exec/reference.h"

namespace relibra::exec {
namespace {

constexpr std::int64_t kRows = 4;  // of `out` that share each row of b

__attribute__((target_clones("avx512f", "avx2", "default"))) void multiply_rows(
    std::int64_t rows, std::int64_t n, std::int64_t k, const double* __restrict a, const double* __restrict b,
    double* __restrict out) {
  for (std::int64_t p = 0; p < k; ++p) {
    const double* __restrict from = b + p * n;
    if (rows == kRows) {
      const double a0 = a[p], a1 = a[k + p], a2 = a[2 * k + p], a3 = a[3 * k + p];
      double *o0 = out, *o1 = out + n, *o2 = out + 2 * n, *o3 = out + 3 * n;
#pragma GCC ivdep
      for (std::int64_t j = 0; j < n; ++j) {
        o0[j] += a0 * from[j];
        o1[j] += a1 * from[j];
        o2[j] += a2 * from[j];
        o3[j] += a3 * from[j];
      }
    } else {
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < n; ++j) out[i * n + j] += a[i * k + p] * from[j];
    }
  }
}

}  // namespace

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, std::span<const double> a,
              std::span<const double> b, std::span<double> out, bool add) {
  if (!add) std::fill(out.begin(), out.end(), 0.0);
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < m; i += kRows)
    multiply_rows(std::min(kRows, m - i), n, k, a.data() + i * k, b.data(), out.data() + i * n);
}

std::vector<double> transposed(std::span<const double> a, std::int64_t rows, std::int64_t columns) {
  std::vector<double> result(a.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      result[static_cast<std::size_t>(c * rows + r)] = a[static_cast<std::size_t>(r * columns + c)];
  return result;
}

}  // namespace relibra::exec
