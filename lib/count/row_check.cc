#include "lib/count/row_check.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lib/base/clones.h"

namespace relibra {
namespace {

// Loops on unsigned numbers of each width, where negative ids are the largest; no early exit, so that they
// are vectorised. Inlined into a function for each width, since templates take no clones.
#define RELIBRA_INLINE __attribute__((always_inline)) inline

template <class U>
RELIBRA_INLINE U maximum_of(const U* ids, std::int64_t count) {
  U most = 0;
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < count; ++i) most = ids[i] > most ? ids[i] : most;
  return most;
}
RELIBRA_CLONES std::uint8_t maximum(const std::uint8_t* ids, std::int64_t count) {
  return maximum_of(ids, count);
}
RELIBRA_CLONES std::uint16_t maximum(const std::uint16_t* ids, std::int64_t count) {
  return maximum_of(ids, count);
}
RELIBRA_CLONES std::uint32_t maximum(const std::uint32_t* ids, std::int64_t count) {
  return maximum_of(ids, count);
}

/// Returns all values or-ed.
template <class U>
RELIBRA_INLINE U to_bytes_of(const U* ids, std::int64_t count, std::uint8_t* bytes) {
  U bits = 0;
#pragma omp simd reduction(| : bits)
  for (std::int64_t i = 0; i < count; ++i) {
    bits = static_cast<U>(bits | ids[i]);
    bytes[i] = static_cast<std::uint8_t>(ids[i] > 255 ? 255 : ids[i]);
  }
  return bits;
}
RELIBRA_CLONES std::uint16_t to_bytes(const std::uint16_t* ids, std::int64_t count, std::uint8_t* bytes) {
  return to_bytes_of(ids, count, bytes);
}
RELIBRA_CLONES std::uint32_t to_bytes(const std::uint32_t* ids, std::int64_t count, std::uint8_t* bytes) {
  return to_bytes_of(ids, count, bytes);
}

/// Nonzero where a[i] == b[i] for some i with mask[i] all ones.
template <class U>
RELIBRA_INLINE U equal_of(const U* a, const U* b, const U* mask, std::int64_t count) {
  U found = 0;
#pragma omp simd reduction(| : found)
  for (std::int64_t i = 0; i < count; ++i) {
    const U same = a[i] == b[i] ? static_cast<U>(~U{0}) : U{0};
    found = static_cast<U>(found | (same & mask[i]));
  }
  return found;
}
RELIBRA_CLONES std::uint8_t equal(const std::uint8_t* a, const std::uint8_t* b, const std::uint8_t* mask,
                                  std::int64_t count) {
  return equal_of(a, b, mask, count);
}
RELIBRA_CLONES std::uint16_t equal(const std::uint16_t* a, const std::uint16_t* b, const std::uint16_t* mask,
                                   std::int64_t count) {
  return equal_of(a, b, mask, count);
}
RELIBRA_CLONES std::uint32_t equal(const std::uint32_t* a, const std::uint32_t* b, const std::uint32_t* mask,
                                   std::int64_t count) {
  return equal_of(a, b, mask, count);
}

}  // namespace

template <class T>
bool all_in_range(const T* ids, std::int64_t count, int experts) {
  using U = std::make_unsigned_t<T>;
  const std::int64_t last = std::min<std::int64_t>(experts - 1, std::numeric_limits<T>::max());
  return maximum(reinterpret_cast<const U*>(ids), count) <= static_cast<U>(last);
}

template <class T>
bool narrow(const T* ids, std::int64_t count, std::uint8_t* bytes) {
  return to_bytes(reinterpret_cast<const std::make_unsigned_t<T>*>(ids), count, bytes) <= 255;
}
template bool narrow(const std::uint16_t*, std::int64_t, std::uint8_t*);
template bool narrow(const std::int16_t*, std::int64_t, std::uint8_t*);
template bool narrow(const std::int32_t*, std::int64_t, std::uint8_t*);

RepeatCheck::RepeatCheck(IdType type, int top_k, std::int64_t cells) : top_k_(top_k), ids_(cells * top_k) {
  const auto width = static_cast<std::int64_t>(size_of(type));
  same_.resize(static_cast<std::size_t>((top_k - 1) * ids_ * width));
  for (std::int64_t d = 1; d < top_k; ++d)
    for (std::int64_t i = 0; i < ids_; ++i)
      if (i % top_k + d < top_k)
        std::memset(same_.data() + ((d - 1) * ids_ + i) * width, 0xFF, static_cast<std::size_t>(width));
}

template <class T>
bool RepeatCheck::any(const T* ids) const {
  using U = std::make_unsigned_t<T>;
  const auto* a = reinterpret_cast<const U*>(ids);
  const auto* mask = reinterpret_cast<const U*>(same_.data());
  U found = 0;
  for (std::int64_t d = 1; d < top_k_; ++d)
    found = static_cast<U>(found | equal(a, a + d, mask + (d - 1) * ids_, ids_ - d));
  return found != 0;
}

#define RELIBRA_INSTANTIATE(T)                             \
  template bool all_in_range(const T*, std::int64_t, int); \
  template bool RepeatCheck::any(const T*) const;
RELIBRA_INSTANTIATE(std::uint8_t)
RELIBRA_INSTANTIATE(std::int8_t)
RELIBRA_INSTANTIATE(std::uint16_t)
RELIBRA_INSTANTIATE(std::int16_t)
RELIBRA_INSTANTIATE(std::int32_t)
#undef RELIBRA_INSTANTIATE

}  // namespace relibra
