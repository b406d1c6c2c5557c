#pragma once
// What lets one function body serve the host and the device: the qualifier, and element types.
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define RELIBRA_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define RELIBRA_HOST_DEVICE inline __attribute__((always_inline))
#endif

namespace relibra::kernels {

/// bfloat16 as bits: the upper half of a float32.
struct Bf16 {
  std::uint16_t bits;
};

RELIBRA_HOST_DEVICE float bits_to_float(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
RELIBRA_HOST_DEVICE std::uint32_t float_to_bits(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

RELIBRA_HOST_DEVICE float to_float(float value) {
  return value;
}
RELIBRA_HOST_DEVICE float to_float(Bf16 value) {
  return bits_to_float(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Rounds to the nearest, ties to even; a NaN stays a NaN.
template <class T>
RELIBRA_HOST_DEVICE T from_float(float value);
template <>
RELIBRA_HOST_DEVICE float from_float<float>(float value) {
  return value;
}
template <>
RELIBRA_HOST_DEVICE Bf16 from_float<Bf16>(float value) {
  const std::uint32_t bits = float_to_bits(value);
  const std::uint32_t rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
  const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  return Bf16{static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40u : rounded >> 16)};
}

}  // namespace relibra::kernels
