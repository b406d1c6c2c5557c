#include "lib/exec/holders.h"

#include <algorithm>
#include <set>
#include <string>

#include "lib/base/error.h"

namespace relibra::exec {
namespace {

std::string text_of(const Copy& copy) {
  return "expert " + std::to_string(copy.expert.value()) + " on rank " + std::to_string(copy.rank.value()) +
         " slot " + std::to_string(copy.slot);
}

/// What is wrong with a copy, or nothing.
std::string fault_of(const PlanHeader& header, const Copy& copy, const Copy* before, RankId home) {
  const Topology& t = header.topology;
  if (copy.slot < 0 || copy.slot >= header.replica_slots) return "a slot outside the plan's replica_slots";
  if (before && !(std::pair(before->expert, before->rank) < std::pair(copy.expert, copy.rank)))
    return "an entry out of order or twice";
  if (copy.rank == home) return "a copy on the expert's home";
  if (header.replica_domain == ReplicaDomain::node && t.node_of(copy.rank) != t.node_of(home))
    return "a copy outside the node of its home";
  return {};
}

}  // namespace

Holders::Holders(const Plan& plan, MicroBatchId m, LayerId l, GroupId group, std::span<const Copy> copies)
    : topology_(plan.header.topology), group_(group), home_slots_(plan.header.slots_per_rank) {
  const PlanHeader& header = plan.header;
  const auto fail = [&](const std::string& found) {
    throw_input(
        {.where = "plan, micro-batch " + std::to_string(m.value()) + ", layer " + std::to_string(l.value()),
         .found = found,
         .advice = "`relibra check` lists every broken rule"});
  };
  home_slot_.assign(static_cast<std::size_t>(header.num_experts), -1);
  home_.assign(home_slot_.size(), RankId());
  const auto width = static_cast<std::size_t>(home_slots_);
  for (EpRankId p : all<EpRankId>(topology_.ep_size))
    for (std::size_t c = 0; c < width; ++c) {
      const ExpertId e =
          plan.slot_expert[(l.index() * static_cast<std::size_t>(topology_.ep_size) + p.index()) * width + c];
      if (!e.valid()) continue;
      if (e.value() >= header.num_experts || plan.placement.home(l, e) != p)
        fail("a home slot of EP rank " + std::to_string(p.value()) + " with expert " +
             std::to_string(e.value()) + ", whose home is elsewhere");
      home_slot_[e.index()] = static_cast<std::int32_t>(c);
      home_[e.index()] = topology_.rank_of(group, p);
    }
  if (std::find(home_slot_.begin(), home_slot_.end(), -1) != home_slot_.end())
    fail("an expert without a home slot");

  std::set<std::pair<RankId, std::int32_t>> taken;
  for (const Copy& copy : copies) {
    if (copy.expert.value() < 0 || copy.expert.value() >= header.num_experts || copy.rank.value() < 0 ||
        copy.rank.value() >= topology_.world())
      fail("a copy of " + text_of(copy) + ", out of range");
    if (topology_.group_of(copy.rank) != group) continue;
    std::string fault =
        fault_of(header, copy, copies_.empty() ? nullptr : &copies_.back(), home(copy.expert));
    if (fault.empty() && !taken.insert({copy.rank, copy.slot}).second) fault = "a slot used twice";
    if (!fault.empty()) fail(fault + " (" + text_of(copy) + ")");
    copies_.push_back(copy);
  }
}

std::span<const Copy> Holders::copies(ExpertId e) const {
  const auto [first, last] =
      std::equal_range(copies_.begin(), copies_.end(), Copy{.expert = e},
                       [](const Copy& a, const Copy& b) { return a.expert < b.expert; });
  return {first, last};
}

std::int32_t Holders::slot(ExpertId e, RankId rank) const {
  if (rank == home(e)) return home_slot_[e.index()];
  for (const Copy& copy : copies(e))
    if (copy.rank == rank) return home_slots_ + copy.slot;
  return -1;
}

}  // namespace relibra::exec
