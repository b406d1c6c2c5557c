#pragma once
// Whether a stretch of ids is clean, vectorised: all in range, none twice in a cell (the K ids of a row and
// layer). What is not clean is scanned id by id (cell_scan.h).
#include <cstdint>
#include <vector>

#include "lib/model/routing.h"

namespace relibra {

/// True where all `count` ids are in [0, experts). Local, T one of the types of ids.
template <class T>
bool all_in_range(const T* ids, std::int64_t count, int experts);

/// The ids as bytes, 255 for those that are negative or more than 255; true where there were none. T is wider
/// than a byte.
template <class T>
bool narrow(const T* ids, std::int64_t count, std::uint8_t* bytes);

/// Finds ids that stand twice in a cell.
class RepeatCheck {
 public:
  /// For stretches of `cells` cells.
  RepeatCheck(IdType type, int top_k, std::int64_t cells);

  /// True where some cell has equal ids, of whatever value. T is the type given.
  template <class T>
  bool any(const T* ids) const;

 private:
  int top_k_;
  std::int64_t ids_;             ///< in a stretch
  std::vector<std::byte> same_;  ///< (K - 1, ids) T: all ones where the id d further on is of the same cell
};

}  // namespace relibra
