#pragma once
// Counting by bits: the K ids of a cell become one bit each in a mask of E bits, and the masks of many rows
// are added up column by column with carry-save adders, so that no counter is touched for a single id. An id
// that stands twice in a cell, and one that is out of range, sets no bit of its own: the sum over a layer's
// counters is K * rows exactly where every cell is clean, which validates the rows for nothing.
//
// Needs AVX-512 with VBMI (Intel from Ice Lake, AMD from Zen 4), E <= 256 and K <= 8.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace relibra {

class OneHotCounter {
 public:
  static constexpr int kRows = 16;       ///< rows that add() takes at most
  static constexpr int kTileRows = 240;  ///< rows between two calls of take(), at most

  /// Whether this machine and shape can have one.
  static bool possible(int top_k, int experts);

  OneHotCounter(int layers, int top_k, int experts);

  /// Adds rows `first`, `first + stride` ... for which `present` has a bit, low bit first. A row is (layers,
  /// K) ids as bytes.
  void add(const std::uint8_t* first, std::int64_t stride, std::uint32_t present);

  /// table (layers, E) += what was added since the last take; sums (layers) = that per layer.
  void take(std::uint32_t* table, std::span<std::uint32_t> sums);

  /// 512 bits: of 8 layers, 64 experts each.
  struct alignas(64) Lanes {
    std::array<std::uint64_t, 8> word{};
  };

 private:
  static constexpr int kPlanes = 8;  ///< bits of a counter: 255 >= kTileRows

  int groups() const { return (layers_ + 7) / 8; }
  int words() const { return (experts_ + 63) / 64; }

  int layers_, top_k_, experts_;
  std::array<Lanes, 8> select_;  ///< byte j*8 of select_[k]: where the id k of layer j stands in 8*K bytes
  std::vector<Lanes> planes_;    ///< (groups, planes, words)
};

}  // namespace relibra
