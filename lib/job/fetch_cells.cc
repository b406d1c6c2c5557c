#include "lib/job/fetch_cells.h"

#include <algorithm>

namespace relibra {

PlanCells fetch_cells(const Comm& comm, const PlanCells& mine, Range wanted) {
  const auto ranges = comm.gather_all(std::span<const Range>(&wanted, 1));
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<std::vector<std::int64_t>> counts(ranks);
  std::vector<std::vector<Copy>> copies(ranks);
  std::vector<std::vector<SplitEntry>> split(ranks);
  for (std::size_t to = 0; to < ranks; ++to) {
    const std::int64_t last = std::min(ranges[to].last, mine.cells.last);
    for (std::int64_t cell = std::max(ranges[to].first, mine.cells.first); cell < last; ++cell) {
      const auto c = mine.copies_of(cell);
      const auto s = mine.split_of(cell);
      counts[to].insert(counts[to].end(), {std::ssize(c), std::ssize(s)});
      copies[to].insert(copies[to].end(), c.begin(), c.end());
      split[to].insert(split[to].end(), s.begin(), s.end());
    }
  }
  counts = comm.exchange(counts);
  copies = comm.exchange(copies);
  split = comm.exchange(split);
  PlanCells cells{.cells = wanted};
  for (std::size_t from = 0; from < ranks; ++from) {  // shares ascend by rank
    for (std::size_t i = 0; i < counts[from].size(); i += 2) {
      cells.copy_offset.push_back(cells.copy_offset.back() + counts[from][i]);
      cells.split_offset.push_back(cells.split_offset.back() + counts[from][i + 1]);
    }
    cells.copies.insert(cells.copies.end(), copies[from].begin(), copies[from].end());
    cells.split.insert(cells.split.end(), split[from].begin(), split[from].end());
  }
  return cells;
}

PlanView view_of(const Comm& comm, const Plan& plan, const PlanCells& mine) {
  return {.plan = plan, .moves = {}, .has_transfers = false, .read = [&comm, &mine](Range cells, bool) {
            return fetch_cells(comm, mine, cells);
          }};
}

}  // namespace relibra
