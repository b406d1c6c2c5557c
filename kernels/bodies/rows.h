#pragma once
// Bodies of gather_rows and combine_rows: `N` neighbouring columns of one row, starting at `column`. A
// backend chooses N and calls them for every row and every run of N columns (then N = 1 for what is left of a
// row).
#include "kernels/backend.h"
#include "kernels/bodies/columns.h"

namespace relibra::kernels {

template <class T, int N>
RELIBRA_HOST_DEVICE void gather_columns(const GatherRows& args, std::int64_t row, std::int64_t column) {
  const T* in = static_cast<const T*>(args.in) + args.index[row] * args.width + column;
  T* out = static_cast<T*>(args.out) + row * args.width + column;
  for (int c = 0; c < N; ++c) out[c] = in[c];
}

template <class T, int N>
RELIBRA_HOST_DEVICE void combine_columns(const CombineRows& args, std::int64_t row, std::int64_t column) {
  float sum[N];
  const std::int64_t at = row * args.width + column;
  for (int c = 0; c < N; ++c) sum[c] = 0.0f;
  if (args.base) {
    const auto base = load_columns<T, N>(static_cast<const T*>(args.base) + at);
    for (int c = 0; c < N; ++c) sum[c] = to_float(base[c]);
  }
  for (std::int32_t j = args.offset[row]; j < args.offset[row + 1]; ++j) {
    const std::int64_t from = args.index[j];
    const auto in = load_columns<T, N>(static_cast<const T*>(args.in) + from * args.width + column);
    const float weight = args.weight ? args.weight[from] : 1.0f;
    for (int c = 0; c < N; ++c) sum[c] += weight * to_float(in[c]);
  }
  store_columns<T, N>(static_cast<T*>(args.out) + at, sum);
}

}  // namespace relibra::kernels
