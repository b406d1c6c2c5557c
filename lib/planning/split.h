#pragma once
// Quotas of a replicated expert dealt to source ranks: integers that match each source's tokens and each
// holder's quota.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/model/plan.h"

namespace relibra {

struct HolderQuota {
  RankId rank;
  std::int64_t tokens = 0;
};

/// Appends entries for one expert and one EP group, sorted by (source, rank). A holder takes its own tokens
/// first, then those of its node, then others. `source_tokens` (P) are the expert's tokens by source rank of
/// `group`; the quotas sum to the same total.
void split_by_source(ExpertId expert, GroupId group, const Topology& topology,
                     std::span<const std::int32_t> source_tokens, std::span<const HolderQuota> holders,
                     std::vector<SplitEntry>& out);

}  // namespace relibra
