#include "lib/job/check_cells.h"

#include <algorithm>
#include <tuple>

namespace relibra {
namespace {

bool inside(std::int32_t value, int end) {
  return value >= 0 && value < end;
}

template <class... Parts>
std::string join(const Parts&... parts) {
  std::string text;
  const auto add = [&](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>)
      text += std::to_string(part);
    else
      text += part;
  };
  (add(parts), ...);
  return text;
}

}  // namespace

/// One cell with what its rules need.
struct CellChecker::Cell {
  const PlanCells& cells;
  std::int64_t index;  ///< m*L + l
  MicroBatchId m;
  LayerId l;
  std::span<const EpRankId> home;  ///< (E)

  Cell(const Plan& plan, const PlanCells& all, MicroBatchId micro_batch, LayerId layer)
      : cells(all),
        index(plan.header.cell(micro_batch, layer)),
        m(micro_batch),
        l(layer),
        home(plan.placement.layer(layer)) {}

  std::size_t row() const { return static_cast<std::size_t>(index - cells.cells.first); }
  template <class... Parts>
  std::string text(const Parts&... parts) const {
    return join("micro-batch ", m.value(), " layer ", l.value(), ": ", parts...);
  }
};

CellChecker::CellChecker(const PlanView& view, BrokenRules& broken)
    : plan_(view.plan),
      has_transfers_(view.has_transfers),
      topology_(plan_.header.topology),
      broken_(broken),
      has_sequences_(static_cast<std::size_t>(plan_.header.num_micro_batches * topology_.world())) {
  for (std::size_t s = 0; s < plan_.micro_batch.size(); ++s)
    has_sequences_[static_cast<std::size_t>(plan_.micro_batch[s] * topology_.world() +
                                            plan_.source_rank[s])] = true;
}

void CellChecker::bin(const PlanCells& cells, const BinRecount& bin) {
  const auto width = static_cast<std::size_t>(topology_.ep_size);
  for (LayerId l : all<LayerId>(plan_.header.num_layers())) {
    const Cell cell(plan_, cells, bin.micro_batch, l);
    check_split_of_bin(cell, bin);
    if (has_transfers_) check_transfer_row(cell, bin.source, bin.transfer.subspan(l.index() * width, width));
  }
}

/// Entries of each (expert, source) sum to the dump's count, and replicated experts with tokens have some.
void CellChecker::check_split_of_bin(const Cell& cell, const BinRecount& bin) {
  const auto experts = static_cast<std::size_t>(plan_.header.num_experts);
  const auto counts = bin.counts.subspan(cell.l.index() * experts, experts);
  std::vector<bool> has_split(experts);
  const auto split = bin.split[cell.l.index()];
  for (auto at = split.begin(); at != split.end();) {
    const ExpertId e = at->expert;
    std::int64_t sum = 0;
    for (; at != split.end() && at->expert == e; ++at) sum += at->tokens;
    has_split[e.index()] = true;
    if (sum != counts[e.index()])
      broken_.add(cell.index, cell.text("split of expert ", e.value(), " from rank ", bin.source.value(),
                                        " sums to ", sum, ", the dump has ", counts[e.index()]));
  }
  const GroupId group = topology_.group_of(bin.source);
  ExpertId last;
  for (const Copy& copy : cell.cells.copies_of(cell.index)) {
    if (!inside(copy.expert.value(), plan_.header.num_experts) ||
        !inside(copy.rank.value(), topology_.world()))
      continue;
    if (topology_.group_of(copy.rank) != group || copy.expert == last) continue;
    last = copy.expert;
    if (counts[last.index()] > 0 && !has_split[last.index()])
      broken_.add(cell.index, cell.text("replicated expert ", last.value(), " has ", counts[last.index()],
                                        " tokens from rank ", bin.source.value(), " and no split"));
  }
}

void CellChecker::check_transfer_row(const Cell& cell, RankId source, std::span<const std::int32_t> due) {
  const auto width = static_cast<std::size_t>(topology_.ep_size);
  const auto at = (cell.row() * static_cast<std::size_t>(topology_.world()) + source.index()) * width;
  const auto found = std::span(cell.cells.transfer).subspan(at, width);
  const auto differs = std::mismatch(found.begin(), found.end(), due.begin());
  if (differs.first == found.end()) return;
  broken_.add(cell.index, cell.text("transfer/assignments from rank ", source.value(), " to rank ",
                                    differs.first - found.begin(), " of its group is ", *differs.first,
                                    ", a recount gives ", *differs.second));
}

void CellChecker::micro_batch(const PlanCells& cells, MicroBatchRecount& recount) {
  bool in_range = true;
  for (LayerId l : all<LayerId>(plan_.header.num_layers())) {
    const Cell cell(plan_, cells, recount.micro_batch(), l);
    in_range &= check_copies(cell);
    check_slots_in_use(cell);
    check_split(cell);
    check_sources_without_tokens(cell);
    check_table(cell, "rank_tokens", cells.rank_tokens, recount.rank_tokens(MicroBatchRecount::after, l));
    check_table(cell, "rank_tokens_static", cells.rank_tokens_static,
                recount.rank_tokens(MicroBatchRecount::before, l));
  }
  if (in_range) sample_recount(plan_, cells, recount, samples_);
}

/// Returns whether all copies are in range.
bool CellChecker::check_copies(const Cell& cell) {
  const auto copies = cell.cells.copies_of(cell.index);
  const auto require = [&](bool holds, const auto&... parts) {
    if (!holds) broken_.add(cell.index, cell.text(parts...));
  };
  bool in_range = true;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const Copy& c = copies[i];
    const int expert = c.expert.value(), rank = c.rank.value();
    if (i > 0)
      require(std::tie(copies[i - 1].expert, copies[i - 1].rank) < std::tie(c.expert, c.rank),
              "/replicas is not sorted by (expert, rank) or has a pair twice, at expert ", expert, " rank ",
              rank);
    if (!inside(expert, plan_.header.num_experts) || !inside(rank, topology_.world())) {
      require(false, "copy of expert ", expert, " on rank ", rank, " is out of range");
      in_range = false;
      continue;
    }
    require(inside(c.slot, plan_.header.replica_slots), "copy of expert ", expert, " on rank ", rank,
            " is in slot ", c.slot, ", out of range");
    const RankId home = topology_.rank_of(topology_.group_of(c.rank), cell.home[c.expert.index()]);
    require(c.rank != home, "expert ", expert, " is copied onto its home rank ", rank);
    require(plan_.header.replica_domain == ReplicaDomain::group ||
                topology_.node_of(c.rank) == topology_.node_of(home),
            "copy of expert ", expert, " on rank ", rank, " leaves the node of its home ", home.value());
  }
  return in_range;
}

/// No slot twice, and homes plus copies of a rank within physical_slots.
void CellChecker::check_slots_in_use(const Cell& cell) {
  std::vector<std::int32_t> held(static_cast<std::size_t>(topology_.world()));
  for (EpRankId p : cell.home)
    for (GroupId g : all<GroupId>(topology_.ep_groups)) ++held[topology_.rank_of(g, p).index()];
  std::vector<std::pair<RankId, std::int32_t>> used;
  for (const Copy& c : cell.cells.copies_of(cell.index)) {
    if (!inside(c.rank.value(), topology_.world())) continue;
    ++held[c.rank.index()];
    used.emplace_back(c.rank, c.slot);
  }
  std::sort(used.begin(), used.end());
  for (std::size_t i = 1; i < used.size(); ++i)
    if (used[i] == used[i - 1])
      broken_.add(cell.index,
                  cell.text("slot ", used[i].second, " of rank ", used[i].first.value(), " is used twice"));
  const auto most = std::max_element(held.begin(), held.end());
  if (*most > plan_.header.physical_slots)
    broken_.add(cell.index, cell.text("rank ", most - held.begin(), " holds ", *most,
                                      " experts, physical_slots is ", plan_.header.physical_slots));
}

void CellChecker::check_split(const Cell& cell) {
  const auto split = cell.cells.split_of(cell.index);
  std::vector<std::pair<ExpertId, RankId>> holders;
  std::vector<bool> replicated(static_cast<std::size_t>(topology_.ep_groups * plan_.header.num_experts));
  const auto replicated_at = [&](GroupId g, ExpertId e) {
    return replicated.begin() + (g.value() * plan_.header.num_experts + e.value());
  };
  for (const Copy& c : cell.cells.copies_of(cell.index)) {
    if (!inside(c.expert.value(), plan_.header.num_experts) || !inside(c.rank.value(), topology_.world()))
      continue;
    holders.emplace_back(c.expert, c.rank);
    *replicated_at(topology_.group_of(c.rank), c.expert) = true;
  }
  std::sort(holders.begin(), holders.end());
  for (std::size_t i = 0; i < split.size(); ++i) {
    const SplitEntry& x = split[i];
    const auto require = [&](bool holds, const char* what) {
      if (!holds)
        broken_.add(cell.index, cell.text("split of expert ", x.expert.value(), " from rank ",
                                          x.source.value(), " to rank ", x.rank.value(), what));
      return holds;
    };
    if (i > 0)
      require(std::tie(split[i - 1].expert, split[i - 1].source, split[i - 1].rank) <
                  std::tie(x.expert, x.source, x.rank),
              ": /split is not sorted by (expert, source, rank) or has an entry twice");
    if (!require(inside(x.expert.value(), plan_.header.num_experts) &&
                     inside(x.source.value(), topology_.world()) &&
                     inside(x.rank.value(), topology_.world()) && x.tokens > 0,
                 " is out of range or has no tokens"))
      continue;
    require(topology_.group_of(x.source) == topology_.group_of(x.rank), " crosses EP groups");
    const GroupId group = topology_.group_of(x.rank);
    if (!require(*replicated_at(group, x.expert), ", which has no copy in that EP group")) continue;
    require(x.rank == topology_.rank_of(group, cell.home[x.expert.index()]) ||
                std::binary_search(holders.begin(), holders.end(), std::pair(x.expert, x.rank)),
            ", which does not hold it");
  }
}

/// Sources without sequences in the micro-batch are in no bin: nothing may come from them.
void CellChecker::check_sources_without_tokens(const Cell& cell) {
  const auto none = [&](RankId source) {
    return !has_sequences_[static_cast<std::size_t>(cell.m.value() * topology_.world() + source.value())];
  };
  for (const SplitEntry& x : cell.cells.split_of(cell.index))
    if (inside(x.source.value(), topology_.world()) && none(x.source))
      broken_.add(cell.index, cell.text("split of expert ", x.expert.value(), " from rank ", x.source.value(),
                                        " has ", x.tokens, " tokens, the dump has 0"));
  if (!has_transfers_) return;
  const std::vector<std::int32_t> zeros(static_cast<std::size_t>(topology_.ep_size));
  for (RankId source : all<RankId>(topology_.world()))
    if (none(source)) check_transfer_row(cell, source, zeros);
}

void CellChecker::check_table(const Cell& cell, const char* name, const std::vector<std::int64_t>& table,
                              std::span<const std::int64_t> due) {
  const auto found = std::span(table).subspan(cell.row() * due.size(), due.size());
  const auto differs = std::mismatch(found.begin(), found.end(), due.begin());
  if (differs.first == found.end()) return;
  broken_.add(cell.index, cell.text("metrics/", name, " of rank ", differs.first - found.begin(), " is ",
                                    *differs.first, ", a recount gives ", *differs.second));
}

}  // namespace relibra
