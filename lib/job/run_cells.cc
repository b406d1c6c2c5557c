// Cells spread over processes, brought together for an execution.
#include <algorithm>

#include "lib/job/run.h"

namespace relibra {

PlanCells gather_cells(const Comm& comm, const PlanCells& mine, Range range) {
  const Range part{std::max(range.first, mine.cells.first), std::min(range.last, mine.cells.last)};
  std::vector<Copy> copies;
  std::vector<SplitEntry> split;
  std::vector<std::int64_t> counts, rank_tokens;
  const std::size_t world =
      mine.cells.empty() ? 0 : mine.rank_tokens.size() / static_cast<std::size_t>(mine.cells.size());
  for (std::int64_t cell = part.first; cell < part.last; ++cell) {
    const auto c = mine.copies_of(cell);
    const auto s = mine.split_of(cell);
    copies.insert(copies.end(), c.begin(), c.end());
    split.insert(split.end(), s.begin(), s.end());
    counts.insert(counts.end(), {static_cast<std::int64_t>(c.size()), static_cast<std::int64_t>(s.size())});
    const auto loads =
        std::span(mine.rank_tokens).subspan(static_cast<std::size_t>(cell - mine.cells.first) * world, world);
    rank_tokens.insert(rank_tokens.end(), loads.begin(), loads.end());
  }
  PlanCells all;
  all.cells = range;
  all.copies = comm.gather_all(std::span<const Copy>(copies));
  all.split = comm.gather_all(std::span<const SplitEntry>(split));
  all.rank_tokens = comm.gather_all(std::span<const std::int64_t>(rank_tokens));
  const auto all_counts = comm.gather_all(std::span<const std::int64_t>(counts));
  for (std::size_t i = 0; i < all_counts.size(); i += 2) {
    all.copy_offset.push_back(all.copy_offset.back() + all_counts[i]);
    all.split_offset.push_back(all.split_offset.back() + all_counts[i + 1]);
  }
  return all;
}

}  // namespace relibra
