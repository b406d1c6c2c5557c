#include "lib/policy/policy.h"

#include <string>

#include "lib/base/error.h"
#include "lib/policy/policies.h"

namespace relibra {
namespace {

constexpr PolicyEntry kPolicies[] = {
    {"relibra", "reorder experts between steps, replicate inside a step (default)", make_relibra, true},
    {"relibra-reorder", "reorder experts between steps only", make_relibra_reorder, true},
    {"relibra-replicate", "contiguous blocks, replicate inside a step only", make_relibra_replicate},
    {"static", "contiguous blocks of experts, no copies", make_static},
    {"greedy", "largest first on the step's totals, then plain greedy copies", make_greedy},
    {"eplb", "DeepSeek's EPLB with the step's exact totals; copies stay for the step", make_eplb},
    {"eplb-micro-batch", "EPLB anew for every micro-batch, as if moving experts cost nothing",
     make_eplb_micro_batch},
    {"lplb", "DeepSeek's LPLB: copies for the step on a fixed graph, split by cell", make_lplb},
    {"ultraep", "UltraEP: contiguous blocks, copies per cell by its threshold search", make_ultraep},
    {"relibra-split", "contiguous blocks, copies for the step from its totals, split by cell",
     make_relibra_split},
    {"relibra-hybrid", "relibra, and copies on other nodes where the saved wait exceeds their push",
     make_relibra_hybrid, true},
};

}  // namespace

std::span<const PolicyEntry> policies() {
  return kPolicies;
}

std::unique_ptr<Policy> make_policy(std::string_view name, const PolicyOptions& options) {
  std::string names;
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == name) return entry.make(options);
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw_usage({.where = "--policy", .expected = "one of " + names, .found = std::string(name)});
}

}  // namespace relibra
