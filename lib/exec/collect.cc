#include "lib/exec/collect.h"

#include <algorithm>
#include <map>

namespace relibra::exec {
namespace {

/// Rows of a sequence that this process wants, and whose they are.
struct Wanted {
  Range rows;
  std::size_t source = 0;       ///< position in `ranks`
  std::size_t micro_batch = 0;  ///< position in the selection
};

std::vector<Wanted> wanted_rows(const Sequences& sequences, const Plan& plan, const Selection& selection,
                                std::span<const RankId> ranks) {
  std::map<RankId, std::size_t> source_of;
  for (std::size_t s = 0; s < ranks.size(); ++s) source_of[ranks[s]] = s;
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < static_cast<std::size_t>(sequences.size()); ++i) {
    const auto source = source_of.find(RankId(plan.source_rank[i]));
    const auto m = std::lower_bound(selection.micro_batches.begin(), selection.micro_batches.end(),
                                    MicroBatchId(plan.micro_batch[i]));
    const Range rows{sequences.row_offset[i], sequences.row_offset[i + 1]};
    if (source == source_of.end() || m == selection.micro_batches.end() ||
        *m != MicroBatchId(plan.micro_batch[i]) || rows.empty())
      continue;
    wanted.push_back({rows, source->second, static_cast<std::size_t>(m - selection.micro_batches.begin())});
  }
  return wanted;
}

/// Appends one row of a block to the routes of its source.
template <class T>
void append_row(const RoutingHeader& header, const T* ids, const float* weights, const Selection& selection,
                std::size_t micro_batch, SourceRoutes& routes) {
  const MissingRule missing(header);
  const auto k = static_cast<std::size_t>(header.top_k);
  const float even = 1.0f / static_cast<float>(header.top_k);
  for (std::size_t l = 0; l < selection.layers.size(); ++l) {
    CellRoutes& cell = routes.cells[selection.cell(micro_batch, l)];
    const std::size_t at = selection.layers[l].index() * k;
    for (std::size_t i = at; i < at + k; ++i) {
      cell.expert.push_back(missing(ids[i]) ? ExpertId() : ExpertId(ids[i]));
      cell.weight.push_back(weights ? weights[i] : even);
    }
  }
}

}  // namespace

std::vector<SourceRoutes> collect_routes(RoutingSource& source, const Plan& plan, const Selection& selection,
                                         std::span<const RankId> ranks) {
  const RoutingHeader& header = source.dump().header;
  std::vector<SourceRoutes> routes(ranks.size());
  for (std::size_t s = 0; s < ranks.size(); ++s) {
    routes[s].rank = ranks[s];
    routes[s].rows.resize(selection.micro_batches.size());
    routes[s].cells.assign(selection.cells(), CellRoutes{.top_k = header.top_k});
  }
  const auto wanted = wanted_rows(source.dump().sequences, plan, selection, ranks);
  std::vector<Range> ranges;
  for (const Wanted& w : wanted) {
    if (!ranges.empty() && ranges.back().last == w.rows.first)
      ranges.back().last = w.rows.last;
    else
      ranges.push_back(w.rows);
  }
  const auto width = static_cast<std::size_t>(header.num_layers()) * static_cast<std::size_t>(header.top_k);
  std::size_t next = 0;
  source.read(ranges, std::size_t{8} << 20, header.has_weights, [&](const RoutingBlock& block) {
    block.with_ids([&](const auto* ids) {
      for (std::int64_t r = 0; r < block.rows; ++r) {
        const std::int64_t row = block.first_row + r;
        while (row >= wanted[next].rows.last) ++next;
        const auto at = static_cast<std::size_t>(r) * width;
        SourceRoutes& of = routes[wanted[next].source];
        of.rows[wanted[next].micro_batch].push_back(row);
        append_row(header, ids + at, block.weights ? block.weights + at : nullptr, selection,
                   wanted[next].micro_batch, of);
      }
    });
  });
  return routes;
}

}  // namespace relibra::exec
