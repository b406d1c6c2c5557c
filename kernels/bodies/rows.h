#pragma once
// Bodies of gather_rows and combine_rows: `N` neighbouring columns of one row, starting at `column`. A
// backend chooses N and calls them for every row and every run of N columns (then N = 1 for what is left of a
// row).
#include "kernels/backend.h"
#include "kernels/bodies/host_device.h"

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
  const T* base = static_cast<const T*>(args.base);
  for (int c = 0; c < N; ++c) sum[c] = base ? to_float(base[at + c]) : 0.0f;
  for (std::int32_t j = args.offset[row]; j < args.offset[row + 1]; ++j) {
    const std::int64_t from = args.index[j];
    const T* in = static_cast<const T*>(args.in) + from * args.width + column;
    const float weight = args.weight ? args.weight[from] : 1.0f;
    for (int c = 0; c < N; ++c) sum[c] += weight * to_float(in[c]);
  }
  T* out = static_cast<T*>(args.out) + at;
  for (int c = 0; c < N; ++c) out[c] = from_float<T>(sum[c]);
}

}  // namespace relibra::kernels
