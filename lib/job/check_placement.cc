#include <algorithm>
#include <optional>

#include "lib/job/check_whole.h"

namespace relibra {
namespace {

constexpr std::int64_t kWholePlan = BrokenRules::kWholePlan;

/// Homes and home slots of a layer before the step.
struct Before {
  Placement placement;
  std::vector<ExpertId> slots;  ///< (L, P, slots_per_rank)
  int slots_per_rank = 0;
};

std::string layer_text(const PlanHeader& header, LayerId l) {
  return "layer " + std::to_string(l.value()) + " (block " + std::to_string(header.layers[l.index()]) + "): ";
}

/// (C) slots of one rank.
std::span<const ExpertId> slots_of(std::span<const ExpertId> slots, const PlanHeader& h, int per_rank,
                                   LayerId l, EpRankId p) {
  const auto width = static_cast<std::size_t>(per_rank);
  return slots.subspan((l.index() * static_cast<std::size_t>(h.topology.ep_size) + p.index()) * width, width);
}

/// Every expert in exactly one slot of its layer, on its home.
bool check_slots(const Plan& plan, LayerId l, BrokenRules& broken) {
  const PlanHeader& h = plan.header;
  std::vector<int> times(static_cast<std::size_t>(h.num_experts));
  bool sound = true;
  for (EpRankId p : all<EpRankId>(h.topology.ep_size))
    for (ExpertId e : slots_of(plan.slot_expert, h, h.slots_per_rank, l, p)) {
      if (e.value() == -1) continue;
      const std::string expert =
          "slot_expert of rank " + std::to_string(p.value()) + " has expert " + std::to_string(e.value());
      if (!broken.require(e.value() >= 0 && e.value() < h.num_experts, kWholePlan,
                          layer_text(h, l) + expert + ", out of range")) {
        sound = false;
        continue;
      }
      ++times[e.index()];
      sound &= broken.require(plan.placement.home(l, e) == p, kWholePlan,
                              layer_text(h, l) + expert + ", whose expert_rank is " +
                                  std::to_string(plan.placement.home(l, e).value()));
    }
  for (std::size_t e = 0; e < times.size(); ++e)
    sound &= broken.require(times[e] == 1, kWholePlan,
                            layer_text(h, l) + "expert " + std::to_string(e) + " is in " +
                                std::to_string(times[e]) + " slots of slot_expert");
  return sound;
}

/// Slots that a rank must have: experts that stay keep theirs, the others fill the lowest free ones by
/// ascending expert.
std::vector<ExpertId> slots_due(const Plan& plan, const Before& before, LayerId l, EpRankId p) {
  const PlanHeader& h = plan.header;
  std::vector<ExpertId> due(static_cast<std::size_t>(h.slots_per_rank));
  std::vector<bool> stays(static_cast<std::size_t>(h.num_experts));
  const auto old = slots_of(before.slots, h, before.slots_per_rank, l, p);
  for (std::size_t k = 0; k < std::min(old.size(), due.size()); ++k)
    if (old[k].valid() && plan.placement.home(l, old[k]) == p) {
      due[k] = old[k];
      stays[old[k].index()] = true;
    }
  std::size_t free = 0;
  for (ExpertId e : all<ExpertId>(h.num_experts)) {
    if (plan.placement.home(l, e) != p || stays[e.index()]) continue;
    while (free < due.size() && due[free].valid()) ++free;
    if (free < due.size()) due[free] = e;
  }
  return due;
}

void check_slots_kept(const Plan& plan, const Before& before, LayerId l, BrokenRules& broken) {
  const PlanHeader& h = plan.header;
  for (EpRankId p : all<EpRankId>(h.topology.ep_size)) {
    const auto found = slots_of(plan.slot_expert, h, h.slots_per_rank, l, p);
    const auto due = slots_due(plan, before, l, p);
    const auto at = std::mismatch(found.begin(), found.end(), due.begin());
    if (at.first == found.end()) continue;
    broken.add(kWholePlan, layer_text(h, l) + "slot " + std::to_string(at.first - found.begin()) +
                               " of rank " + std::to_string(p.value()) + " holds expert " +
                               std::to_string(at.first->value()) + ", by the plan before it holds " +
                               std::to_string(at.second->value()));
  }
}

void check_moves(const PlanView& view, BrokenRules& broken) {
  const Plan& plan = view.plan;
  auto move = view.moves.begin();
  for (LayerId l : all<LayerId>(plan.header.num_layers()))
    for (ExpertId e : all<ExpertId>(plan.header.num_experts)) {
      const Move due{l, e, plan.previous.home(l, e), plan.placement.home(l, e)};
      if (due.from == due.to) continue;
      if (move == view.moves.end() || *move != due) {
        broken.add(kWholePlan,
                   "placement/moves is not the difference of previous_rank and expert_rank by (layer, "
                   "expert): row " +
                       std::to_string(move - view.moves.begin()) + " is not the move of expert " +
                       std::to_string(e.value()) + " in layer " + std::to_string(l.value()));
        return;
      }
      ++move;
    }
  broken.require(move == view.moves.end(), kWholePlan,
                 "placement/moves has " + std::to_string(view.moves.end() - move) + " rows too many");
}

/// Nothing where the plan before is not known, or is of another shape, which is a broken rule.
std::optional<Before> placement_before(const PlanHeader& h, const PreviousKnown& previous,
                                       BrokenRules& broken) {
  using Kind = PreviousKnown::Kind;
  const int blocks = (h.num_experts + h.topology.ep_size - 1) / h.topology.ep_size;
  if (previous.kind == Kind::none) {
    Before before{.placement = Placement(h.num_layers(), h.num_experts),
                  .slots = std::vector<ExpertId>(
                      static_cast<std::size_t>(h.num_layers() * h.topology.ep_size * blocks)),
                  .slots_per_rank = blocks};
    for (LayerId l : all<LayerId>(h.num_layers()))
      for (ExpertId e : all<ExpertId>(h.num_experts)) {
        before.placement.home(l, e) = EpRankId(e.value() / blocks);
        before.slots[l.index() * static_cast<std::size_t>(h.topology.ep_size * blocks) + e.index()] = e;
      }
    return before;
  }
  if (previous.kind == Kind::unknown) return {};
  const PlanHeader& p = previous.plan->header;
  if (!broken.require(
          p.num_experts == h.num_experts && p.layers == h.layers && p.topology.ep_size == h.topology.ep_size,
          kWholePlan, "the previous plan has other layers, experts or ep_size"))
    return {};
  return Before{.placement = previous.plan->placement,
                .slots = previous.plan->slot_expert,
                .slots_per_rank = p.slots_per_rank};
}

}  // namespace

bool check_placement(const PlanView& view, const PreviousKnown& previous, BrokenRules& broken) {
  const Plan& plan = view.plan;
  const PlanHeader& h = plan.header;
  const auto in_range = [&](const Placement& placement, const char* name) {
    bool inside = true;
    for (LayerId l : all<LayerId>(h.num_layers()))
      for (EpRankId p : placement.layer(l)) inside &= p.value() >= 0 && p.value() < h.topology.ep_size;
    return broken.require(inside, kWholePlan, std::string("placement/") + name + " is outside 0..P-1");
  };
  const bool inside = in_range(plan.placement, "expert_rank");
  in_range(plan.previous, "previous_rank");
  if (!inside) return false;
  check_moves(view, broken);
  const std::optional<Before> before = placement_before(h, previous, broken);
  if (before)
    broken.require(plan.previous == before->placement, kWholePlan,
                   previous.kind == PreviousKnown::Kind::plan
                       ? "placement/previous_rank is not the previous plan's expert_rank"
                       : "placement/previous_rank is not contiguous blocks, though no plan was before");
  for (LayerId l : all<LayerId>(h.num_layers()))
    if (check_slots(plan, l, broken) && before) check_slots_kept(plan, *before, l, broken);
  return true;
}

}  // namespace relibra
