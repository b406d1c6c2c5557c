#include "lib/model/placement.h"

#include <algorithm>

namespace relibra {

Placement Placement::contiguous(int layers, int experts, int ep_size) {
  Placement placement(layers, experts);
  const int slots = home_slots(experts, ep_size);
  for (LayerId l : all<LayerId>(layers))
    for (ExpertId e : all<ExpertId>(experts)) placement.home(l, e) = EpRankId(e.value() / slots);
  return placement;
}

std::vector<ExpertId> initial_slots(int layers, int experts, int ep_size) {
  const int slots = home_slots(experts, ep_size);
  std::vector<ExpertId> table(static_cast<std::size_t>(layers) * static_cast<std::size_t>(ep_size * slots));
  for (LayerId l : all<LayerId>(layers))
    for (ExpertId e : all<ExpertId>(experts))
      table[l.index() * static_cast<std::size_t>(ep_size * slots) + e.index()] = e;
  return table;
}

std::vector<ExpertId> assign_slots(const Placement& placement, int ep_size, int slots,
                                   const Placement& previous, std::span<const ExpertId> previous_slots,
                                   int previous_slots_per_rank) {
  std::vector<ExpertId> table(static_cast<std::size_t>(placement.layers()) *
                              static_cast<std::size_t>(ep_size * slots));
  for (LayerId l : all<LayerId>(placement.layers())) {
    const auto row = [&](EpRankId r) {
      return std::span(table).subspan(
          (l.index() * static_cast<std::size_t>(ep_size) + r.index()) * static_cast<std::size_t>(slots),
          static_cast<std::size_t>(slots));
    };
    std::vector<bool> placed(static_cast<std::size_t>(placement.experts()));
    for (EpRankId r : all<EpRankId>(ep_size)) {
      const auto before = previous_slots.subspan((l.index() * static_cast<std::size_t>(ep_size) + r.index()) *
                                                     static_cast<std::size_t>(previous_slots_per_rank),
                                                 static_cast<std::size_t>(previous_slots_per_rank));
      for (std::size_t k = 0; k < before.size() && k < static_cast<std::size_t>(slots); ++k) {
        const ExpertId e = before[k];
        if (!e.valid() || placement.home(l, e) != r || previous.home(l, e) != r) continue;
        row(r)[k] = e;
        placed[e.index()] = true;
      }
    }
    for (ExpertId e : all<ExpertId>(placement.experts())) {
      if (placed[e.index()]) continue;
      const auto mine = row(placement.home(l, e));
      *std::find(mine.begin(), mine.end(), ExpertId{}) = e;
    }
  }
  return table;
}

std::vector<Move> moves_between(const Placement& previous, const Placement& next) {
  std::vector<Move> moves;
  for (LayerId l : all<LayerId>(next.layers()))
    for (ExpertId e : all<ExpertId>(next.experts()))
      if (previous.home(l, e) != next.home(l, e))
        moves.push_back({l, e, previous.home(l, e), next.home(l, e)});
  return moves;
}

}  // namespace relibra
