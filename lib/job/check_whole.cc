#include "lib/job/check_whole.h"

#include <algorithm>
#include <map>

namespace relibra {
namespace {

constexpr std::int64_t kWholePlan = BrokenRules::kWholePlan;

std::string is_not(const char* name, std::int64_t found, std::int64_t expected) {
  return std::string(name) + " " + std::to_string(found) + " is not the dump's " + std::to_string(expected);
}

/// Micro-batches that the dump fixes, or 0 where the planner formed them.
std::int64_t fixed_micro_batches(const RoutingDump& dump) {
  if (dump.header.num_micro_batches) return *dump.header.num_micro_batches;
  const auto& given = dump.sequences.micro_batch;
  return given.empty() ? 0 : *std::max_element(given.begin(), given.end()) + 1;
}

bool all_below(const std::vector<std::int32_t>& values, int end) {
  return std::all_of(values.begin(), values.end(), [&](std::int32_t v) { return v >= 0 && v < end; });
}

/// A prompt group stays in one optimizer step where the planner formed the micro-batches.
void check_prompt_groups(const RoutingDump& dump, const Plan& plan, BrokenRules& broken) {
  const auto& group = dump.sequences.group;
  if (group.empty() || !dump.sequences.micro_batch.empty()) return;
  const int run = std::max(1, plan.header.num_micro_batches / std::max(1, dump.header.optimizer_steps));
  std::map<std::int32_t, std::int32_t> step_of;
  for (std::size_t s = 0; s < group.size(); ++s) {
    const std::int32_t step = plan.micro_batch[s] / run;
    const auto [known, is_new] = step_of.emplace(group[s], step);
    broken.require(known->second == step, kWholePlan,
                   "sequence " + std::to_string(s) + " is in optimizer step " + std::to_string(step) +
                       ", others of its prompt group " + std::to_string(group[s]) + " are in step " +
                       std::to_string(known->second));
  }
}

}  // namespace

bool check_header(const RoutingDump& dump, const PlanView& view, const CheckOptions& options,
                  BrokenRules& broken) {
  const PlanHeader& h = view.plan.header;
  const RoutingHeader& d = dump.header;
  const auto require = [&](bool holds, const std::string& what) {
    return broken.require(holds, kWholePlan, what);
  };
  require(h.step == d.step, is_not("step", h.step, d.step));
  require(h.top_k == d.top_k, is_not("top_k", h.top_k, d.top_k));
  bool shaped = require(h.num_experts == d.num_experts, is_not("num_experts", h.num_experts, d.num_experts));
  shaped &= require(h.num_layers() == d.num_layers(), is_not("num_layers", h.num_layers(), d.num_layers()));
  require(h.layers == d.layers, "layers are not the dump's");
  const Topology& t = h.topology;
  shaped &= require(t.ep_size >= 1 && t.ep_groups >= 1 && t.gpus_per_node >= 1,
                    "ep_size, num_ep_groups or gpus_per_node is less than 1");
  if (shaped)
    shaped &= require(t.gpus_per_node % t.ep_size == 0 || t.ep_size % t.gpus_per_node == 0,
                      "gpus_per_node " + std::to_string(t.gpus_per_node) +
                          " neither divides nor is divided by ep_size " + std::to_string(t.ep_size));
  require(h.replica_slots >= 0, "replica_slots " + std::to_string(h.replica_slots) + " is negative");
  require(h.physical_slots <= h.slots_per_rank + h.replica_slots,
          "physical_slots " + std::to_string(h.physical_slots) +
              " is more than slots_per_rank + replica_slots, " +
              std::to_string(h.slots_per_rank + h.replica_slots));
  require(view.has_transfers || !options.require_transfers, "no transfer/assignments");
  const std::int64_t fixed = fixed_micro_batches(dump);
  shaped &= require(h.num_micro_batches >= 0 && (fixed == 0 || h.num_micro_batches == fixed),
                    is_not("num_micro_batches", h.num_micro_batches, fixed));
  require(h.num_micro_batches % std::max(1, d.optimizer_steps) == 0,
          "num_micro_batches " + std::to_string(h.num_micro_batches) + " is not a multiple of the dump's " +
              std::to_string(d.optimizer_steps) + " optimizer steps");
  const auto sequences = static_cast<std::size_t>(dump.sequences.size());
  shaped &= require(view.plan.micro_batch.size() == sequences && view.plan.source_rank.size() == sequences,
                    is_not("number of sequences", view.plan.sequences(), dump.sequences.size()));
  return shaped;
}

bool check_sequences(const RoutingDump& dump, const Plan& plan, BrokenRules& broken) {
  const auto require = [&](bool holds, const char* what) { return broken.require(holds, kWholePlan, what); };
  bool inside = require(all_below(plan.micro_batch, plan.header.num_micro_batches),
                        "sequences/micro_batch is outside 0..M-1");
  inside &= require(all_below(plan.source_rank, plan.header.topology.world()),
                    "sequences/source_rank is outside 0..W-1");
  const auto unchanged = [&](const std::vector<std::int32_t>& mine, const std::vector<std::int32_t>& given,
                             const char* name) {
    if (given.empty() || mine == given) return;
    const auto at = std::mismatch(mine.begin(), mine.end(), given.begin());
    broken.add(kWholePlan, std::string("sequences/") + name +
                               " was fixed by the dump and was changed, first of sequence " +
                               std::to_string(at.first - mine.begin()) + " from " +
                               std::to_string(*at.second) + " to " + std::to_string(*at.first));
  };
  unchanged(plan.micro_batch, dump.sequences.micro_batch, "micro_batch");
  unchanged(plan.source_rank, dump.sequences.source_rank, "source_rank");
  if (inside) check_prompt_groups(dump, plan, broken);
  return inside;
}

}  // namespace relibra
