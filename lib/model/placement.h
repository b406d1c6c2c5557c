#pragma once
// Which rank of an EP group is the home of each expert; the same in every group.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/ids.h"

namespace relibra {

/// Homes per layer: (L, E) EpRankId, row-major.
///
/// Example: E = 5, P = 2 as contiguous blocks of ceil(5/2) = 3: homes 0 0 0 1 1.
class Placement {
 public:
  Placement() = default;
  Placement(int layers, int experts)
      : layers_(layers),
        experts_(experts),
        home_(static_cast<std::size_t>(layers) * static_cast<std::size_t>(experts)) {}

  /// Contiguous blocks of ceil(E/P): the static placement of Megatron-LM, and the start where no plan came
  /// before.
  static Placement contiguous(int layers, int experts, int ep_size);

  int layers() const { return layers_; }
  int experts() const { return experts_; }
  EpRankId& home(LayerId l, ExpertId e) {
    return home_[l.index() * static_cast<std::size_t>(experts_) + e.index()];
  }
  EpRankId home(LayerId l, ExpertId e) const {
    return home_[l.index() * static_cast<std::size_t>(experts_) + e.index()];
  }
  std::span<EpRankId> layer(LayerId l) { return {&home_[l.index() * width()], width()}; }
  std::span<const EpRankId> layer(LayerId l) const { return {&home_[l.index() * width()], width()}; }
  bool operator==(const Placement&) const = default;

 private:
  std::size_t width() const { return static_cast<std::size_t>(experts_); }
  int layers_ = 0;
  int experts_ = 0;
  std::vector<EpRankId> home_;
};

/// ceil(E/P): home slots a rank, the letter C.
constexpr int home_slots(int experts, int ep_size) {
  return (experts + ep_size - 1) / ep_size;
}

/// Home slots (L, P, C) of a placement: ExpertId, invalid where empty. Experts that keep their rank keep
/// their slot of `previous`; the others of a rank fill its lowest free slots by ascending expert. `previous`
/// holds (L, P, C_before); pass initial_slots() where there was no plan before.
std::vector<ExpertId> assign_slots(const Placement& placement, int ep_size, int slots,
                                   const Placement& previous, std::span<const ExpertId> previous_slots,
                                   int previous_slots_per_rank);

/// Slots of the contiguous placement, (L, P, C): expert e on rank e / C in slot e mod C.
std::vector<ExpertId> initial_slots(int layers, int experts, int ep_size);

/// One expert that changes its home between two placements.
struct Move {
  LayerId layer;
  ExpertId expert;
  EpRankId from, to;
  bool operator==(const Move&) const = default;
};

/// Exactly where the two differ, sorted by (layer, expert).
std::vector<Move> moves_between(const Placement& previous, const Placement& next);

}  // namespace relibra
