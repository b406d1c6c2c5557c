#include "lib/policy/slots.h"

#include <algorithm>

#include "lib/base/error.h"

namespace relibra {

EplbShape eplb_shape(const PolicyOptions& options, int slots) {
  const EplbShape shape{.slots = slots,
                        .groups = options.details.expert_groups,
                        .nodes = options.topology.domains_per_group(),
                        .ranks = options.topology.ep_size};
  if (shape.groups < 1 || (is_hierarchical(shape) && options.num_experts % shape.groups != 0))
    throw_usage({.where = "--expert-groups",
                 .expected = "a number that divides the " + std::to_string(options.num_experts) + " experts",
                 .found = std::to_string(shape.groups),
                 .advice = "give the model's number of expert groups, or 1 where it has none"});
  return shape;
}

std::vector<StepCopy> eplb_slots(std::span<const std::int64_t> load, const EplbShape& shape) {
  const std::vector<float> approximate(load.begin(), load.end());
  const std::vector<std::int32_t> expert = eplb(approximate, shape);
  const std::size_t per_rank = expert.size() / static_cast<std::size_t>(shape.ranks);
  std::vector<StepCopy> slots;
  for (std::size_t i = 0; i < expert.size(); ++i)
    if (expert[i] >= 0) slots.push_back({ExpertId(expert[i]), EpRankId(i / per_rank)});
  std::sort(slots.begin(), slots.end());
  return slots;
}

void deal_over_slots(const CellDomain& group, std::span<const StepCopy> slots, const CellCounts& counts,
                     const Topology& topology, CellPlan& plan) {
  std::vector<Quota> quotas;
  for (auto first = slots.begin(); first != slots.end();) {
    const std::size_t e = first->expert.index();
    const auto last =
        std::find_if(first, slots.end(), [&](const StepCopy& s) { return s.expert != first->expert; });
    const std::int64_t parts = last - first, part = group.load[e] / parts, larger = group.load[e] % parts;
    for (auto slot = first; slot != last; ++slot) {
      const std::int64_t tokens = part + (slot - first < larger ? 1 : 0);
      const std::int32_t rank = slot->rank.value();
      const bool again = slot != first && slot[-1].rank == slot->rank;
      plan.folded += again ? 1 : 0;
      if (rank == group.home[e]) continue;
      if (again)
        quotas.back().tokens += tokens;
      else
        quotas.push_back({slot->expert.value(), rank, tokens});
    }
    first = last;
  }
  append_quotas(group, quotas, counts, topology, plan);
}

}  // namespace relibra
