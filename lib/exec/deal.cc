#include "lib/exec/deal.h"

#include <algorithm>
#include <string>

#include "lib/base/error.h"

namespace relibra::exec {
namespace {

/// The split of one expert for one source while it is dealt out.
struct Deck {
  std::span<const SplitEntry> entries;
  std::size_t at = 0;
  std::int64_t dealt_of_entry = 0;
  std::int64_t wanted = 0;  ///< tokens the source turned out to have

  RankId next() {
    ++wanted;
    while (at < entries.size() && dealt_of_entry == entries[at].tokens) {
      ++at;
      dealt_of_entry = 0;
    }
    if (at == entries.size()) return RankId();
    ++dealt_of_entry;
    return entries[at].rank;
  }
  std::int64_t total() const {
    std::int64_t sum = 0;
    for (const SplitEntry& entry : entries) sum += entry.tokens;
    return sum;
  }
};

std::string where_of(MicroBatchId m, LayerId l, ExpertId e, RankId source) {
  return "plan, micro-batch " + std::to_string(m.value()) + ", layer " + std::to_string(l.value()) +
         ", split of expert " + std::to_string(e.value()) + " from rank " + std::to_string(source.value());
}

}  // namespace

Dealt deal(const CellRoutes& routes, RankId source, const Holders& holders, MicroBatchId m, LayerId l,
           std::span<const SplitEntry> split) {
  const std::size_t experts = holders.experts();
  std::vector<Deck> decks(experts);
  std::vector<bool> replicated(experts);
  for (const Copy& copy : holders.copies()) replicated[copy.expert.index()] = true;
  for (auto entry = split.begin(); entry != split.end();) {
    const auto last = std::find_if(entry, split.end(), [&](const SplitEntry& other) {
      return other.expert != entry->expert || other.source != entry->source;
    });
    if (entry->source == source) {
      const bool known = entry->expert.valid() && entry->expert.index() < experts;
      if (!known || !replicated[entry->expert.index()] || !decks[entry->expert.index()].entries.empty())
        throw_input({.where = where_of(m, l, entry->expert, source),
                     .found = "an expert without a copy in the group, or entries out of order",
                     .advice = "`relibra check` lists every broken rule"});
      decks[entry->expert.index()].entries = {entry, last};
      for (auto part = entry; part != last; ++part)
        if (part->tokens <= 0 || holders.slot(part->expert, part->rank) < 0)
          throw_input(
              {.where = where_of(m, l, part->expert, source),
               .expected = "tokens for ranks that hold the expert",
               .found = std::to_string(part->tokens) + " for rank " + std::to_string(part->rank.value())});
    }
    entry = last;
  }

  Dealt dealt{std::vector<RankId>(routes.expert.size()), std::vector<std::int32_t>(routes.expert.size(), -1)};
  for (std::size_t i = 0; i < routes.expert.size(); ++i) {
    const ExpertId e = routes.expert[i];
    if (!e.valid()) continue;
    dealt.rank[i] = replicated[e.index()] ? decks[e.index()].next() : holders.home(e);
    if (dealt.rank[i].valid()) dealt.slot[i] = holders.slot(e, dealt.rank[i]);
  }
  for (ExpertId e : all<ExpertId>(experts))
    if (replicated[e.index()] && decks[e.index()].wanted != decks[e.index()].total())
      throw_input({.where = where_of(m, l, e, source),
                   .expected = std::to_string(decks[e.index()].wanted) + " tokens, as the dump has",
                   .found = std::to_string(decks[e.index()].total()),
                   .advice = "the plan was changed or belongs to another dump; plan again"});
  return dealt;
}

Dealt deal_evenly(const CellRoutes& routes, std::int64_t first, const Topology& topology, GroupId group,
                  std::span<const std::int32_t> used_slots) {
  Dealt dealt{std::vector<RankId>(routes.expert.size()), std::vector<std::int32_t>(routes.expert.size(), -1)};
  std::int64_t number = first;
  for (std::size_t i = 0; i < routes.expert.size(); ++i) {
    if (!routes.expert[i].valid()) continue;
    const EpRankId p(number % topology.ep_size);
    const std::int64_t turn = number / topology.ep_size;
    dealt.rank[i] = topology.rank_of(group, p);
    dealt.slot[i] = static_cast<std::int32_t>(turn % std::max(used_slots[p.index()], 1));
    ++number;
  }
  return dealt;
}

}  // namespace relibra::exec
