#pragma once
// What the reordering search works on: items (experts) with a load in every cell, dealt to bins (nodes, or
// ranks of a node) of equal capacity.
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lib/model/counts.h"

namespace relibra {

/// Sixteen cells side by side: what one arithmetic instruction of the search takes where the machine has it.
struct alignas(64) Lanes {
  static constexpr int kCount = 16;
  float value[kCount] = {};
};

/// Loads of items, (items, cells) with cells padded to whole Lanes, scaled per cell so that the mean bin
/// has load 1: value = load * bins / total of the cell, 0 in a cell without load. The last row is all zero:
/// the dummy item of an empty slot. Values are multiples of a power of two coarse enough that sums of any of
/// them are exact in float, so loads of bins can be kept by adding and subtracting, in any order, without
/// drift.
///
/// Example: 2 bins, 3 items with loads 1 2 5 in a cell: 0.25 0.5 1.25 (to a multiple of 2^-21).
class ItemLoads {
 public:
  /// `experts` picks the items out of `loads`; cells are its M*D rows.
  ItemLoads(const LayerLoads& loads, std::span<const std::int32_t> experts, int bins);

  int items() const { return items_; }
  int cells() const { return cells_; }      ///< cells that have any load
  int vectors() const { return vectors_; }  ///< Lanes a row
  /// (vectors) loads of an item; zeros from items() on, for the dummy items of empty slots.
  const Lanes* row(int item) const {
    return rows_.data() + static_cast<std::size_t>(std::min(item, items_)) * width();
  }
  /// Sum of an item's values over cells.
  double total(int item) const;

 private:
  std::size_t width() const { return static_cast<std::size_t>(vectors_); }
  int items_ = 0, cells_ = 0, vectors_ = 0;
  std::vector<Lanes> rows_;
};

/// Items dealt to bins, and what bins carry. Slots of bin b are [b*capacity, (b+1)*capacity). Each slot holds
/// an item; numbers from loads.items() on are dummy items without load, one for each empty slot.
class Bins {
 public:
  Bins(const ItemLoads& loads, int bins, int capacity);

  int bins() const { return bins_; }
  int capacity() const { return capacity_; }
  int slots() const { return bins_ * capacity_; }
  std::int32_t item_in(std::uint32_t slot) const { return slot_item_[slot]; }
  int bin_of(std::int32_t item) const { return bin_of_[static_cast<std::size_t>(item)]; }
  /// (items) bin of each item.
  std::vector<std::int32_t> bin_of_item() const;
  /// (vectors) load of a bin.
  const Lanes* load(int bin) const { return row(row_of_[static_cast<std::size_t>(bin)]); }

  /// Puts every item where `bin_of` says, at most `capacity` a bin; loads are summed anew.
  void assign(const ItemLoads& loads, std::span<const std::int32_t> bin_of);

  /// Two rows of (vectors) to work out what two bins would carry after a swap ...
  Lanes* trial(int k) { return load_.data() + static_cast<std::size_t>(trial_[k]) * width(); }
  /// ... and the swap, after which trial(0) is the load of the bin that held a and trial(1) of the other.
  void swap_to_trial(std::int32_t item_a, std::int32_t item_b) {
    const auto a = static_cast<std::size_t>(item_a), b = static_cast<std::size_t>(item_b);
    std::swap(row_of_[static_cast<std::size_t>(bin_of_[a])], trial_[0]);
    std::swap(row_of_[static_cast<std::size_t>(bin_of_[b])], trial_[1]);
    std::swap(bin_of_[a], bin_of_[b]);
    std::swap(slot_of_[a], slot_of_[b]);
    std::swap(slot_item_[slot_of_[a]], slot_item_[slot_of_[b]]);
  }

 private:
  std::size_t width() const { return static_cast<std::size_t>(vectors_); }
  const Lanes* row(std::int32_t r) const { return load_.data() + static_cast<std::size_t>(r) * width(); }
  int items_, bins_, capacity_, vectors_;
  std::vector<std::int32_t> slot_item_;  ///< (slots)
  std::vector<std::uint32_t> slot_of_;   ///< (slots) slot of each item, dummies too
  std::vector<std::int32_t> bin_of_;     ///< (slots) its bin
  std::vector<Lanes> load_;              ///< (bins + 2) rows of (vectors), in no particular order:
  std::vector<std::int32_t> row_of_;     ///< (bins) row of each bin
  std::int32_t trial_[2];                ///< the other two rows
};

/// Longest-processing-time on totals over cells: items from the heaviest down, each to the lightest bin that
/// is not full (lowest number on a tie). (items) bin of each. Items with a bin in `fixed` (-1: none; may be
/// empty) stay there as long as it has room, in order of their number.
std::vector<std::int32_t> largest_first(const ItemLoads& loads, int bins, int capacity,
                                        std::span<const std::int32_t> fixed = {});

/// Renumbers bins so that as many items as a greedy matching finds keep their bin of `before` (-1: none).
void match_bins(std::span<std::int32_t> bin_of, std::span<const std::int32_t> before, int bins);

}  // namespace relibra
