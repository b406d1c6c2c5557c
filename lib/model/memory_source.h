#pragma once
// A routing dump that lives in memory, as a RoutingSource: small inputs, tests, users of the library.
#include <type_traits>
#include <vector>

#include "lib/model/routing.h"

namespace relibra {

template <class T>
constexpr IdType id_type_of() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return IdType::u8;
  if constexpr (std::is_same_v<T, std::int8_t>) return IdType::i8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return IdType::u16;
  if constexpr (std::is_same_v<T, std::int16_t>) return IdType::i16;
  if constexpr (std::is_same_v<T, std::int32_t>) return IdType::i32;
}

/// Holds all rows on every process. `read` is local: nothing in it waits for another rank, and an exception
/// out of `take` leaves on this rank alone.
///
/// Example: E = 4, K = 2, L = 1, sequences of 2 and 1 rows:
///
///   RoutingDump dump;
///   dump.header = {.num_experts = 4, .top_k = 2, .layers = {0}};
///   dump.sequences = {.row_offset = {0, 2, 3}, .num_tokens = {3, 2}};
///   MemorySource source(dump, std::vector<std::uint8_t>{0, 1, 2, 3, 1, 3});
///
/// Rows 0 and 1 choose experts {0, 1} and {2, 3}; row 2, of the second sequence, {1, 3}.
class MemorySource final : public RoutingSource {
 public:
  /// ids: (R, L, K) row-major; weights: the same shape or empty, which sets header.has_weights. `num_tokens`
  /// may be empty: the rows of each sequence. Throws Fault::input where the sizes disagree; ids are not
  /// looked at.
  template <class T>
  MemorySource(RoutingDump dump, const std::vector<T>& ids, std::vector<float> weights = {})
      : MemorySource(std::move(dump), id_type_of<T>(), ids.data(), ids.size(), std::move(weights)) {}

  /// The same from ids of any value as integers, stored as `type`. Throws Fault::input where one does not
  /// fit.
  static MemorySource with_type(RoutingDump dump, IdType type, const std::vector<int>& ids,
                                std::vector<float> weights = {});

  const RoutingDump& dump() const override { return dump_; }
  IdType id_type() const override { return type_; }
  void read(std::span<const Range> ranges, std::size_t block_bytes, bool with_weights,
            const BlockFn& take) override;

 private:
  MemorySource(RoutingDump dump, IdType type, const void* ids, std::size_t count, std::vector<float> weights);

  RoutingDump dump_;
  IdType type_;
  std::vector<std::byte> ids_;
  std::vector<float> weights_;
};

}  // namespace relibra
