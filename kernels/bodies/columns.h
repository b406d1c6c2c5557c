#pragma once
// N neighbouring elements as one access: on a device a single load or store of up to 16 bytes, on the host
// plain indexing that the compiler turns into vectors of whatever width it has.
#include "kernels/bodies/host_device.h"

namespace relibra::kernels {

#ifdef __CUDA_ARCH__
template <class T, int N>
struct alignas(sizeof(T) * N) Columns {
  T element[N];
  RELIBRA_HOST_DEVICE const T& operator[](int c) const { return element[c]; }
};

template <class T, int N>
RELIBRA_HOST_DEVICE Columns<T, N> load_columns(const T* from) {
  return *reinterpret_cast<const Columns<T, N>*>(from);
}

template <class T, int N>
RELIBRA_HOST_DEVICE void store_columns(T* to, const float (&values)[N]) {
  Columns<T, N> columns;
  for (int c = 0; c < N; ++c) columns.element[c] = from_float<T>(values[c]);
  *reinterpret_cast<Columns<T, N>*>(to) = columns;
}
#else
/// `from` is aligned to N elements on a device, and only there.
template <class T, int N>
RELIBRA_HOST_DEVICE const T* load_columns(const T* from) {
  return from;
}

template <class T, int N>
RELIBRA_HOST_DEVICE void store_columns(T* to, const float (&values)[N]) {
  for (int c = 0; c < N; ++c) to[c] = from_float<T>(values[c]);
}
#endif

}  // namespace relibra::kernels
