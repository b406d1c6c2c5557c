#include "lib/count/suspicion.h"

#include <algorithm>
#include <span>

namespace relibra {
namespace {

/// The busiest expert of a layer and how many experts were chosen at all.
struct LayerSummary {
  std::int32_t layer, expert, experts_used;
  std::int64_t most;
};

LayerSummary summary_of(const SequenceCounts& counts, LayerId layer) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(counts.experts()));
  for (std::int64_t s = 0; s < counts.sequences(); ++s) {
    const auto of = counts.of(layer, s);
    for (std::size_t e = 0; e < load.size(); ++e) load[e] += of[e];
  }
  const auto busiest = std::max_element(load.begin(), load.end());
  const auto unused = std::count(load.begin(), load.end(), 0);
  return {layer.value(), static_cast<std::int32_t>(busiest - load.begin()),
          static_cast<std::int32_t>(counts.experts() - unused), *busiest};
}

std::string layers_text(const RoutingHeader& header, const std::vector<LayerSummary>& found) {
  const auto block = header.layers[static_cast<std::size_t>(found.front().layer)];
  std::string text =
      "layer " + std::to_string(found.front().layer) + " (block " + std::to_string(block) + ")";
  if (found.size() > 1) text += " and " + std::to_string(found.size() - 1) + " more";
  return text;
}

template <class T>
bool counts_up(const T* ids, int layers, int top_k) {
  for (int l = 0; l < layers; ++l, ids += top_k)
    for (int k = 0; k < top_k; ++k)
      if (static_cast<std::int64_t>(ids[k]) != k) return false;
  return true;
}

}  // namespace

std::int64_t rows_counting_up(const RoutingBlock& block, const RoutingHeader& header, Range rows) {
  const std::int64_t row_ids = std::int64_t{header.num_layers()} * header.top_k;
  return block.with_ids([&](const auto* ids) {
    std::int64_t found = 0;
    for (std::int64_t r = rows.first; r < rows.last; ++r)
      found += counts_up(ids + r * row_ids, header.num_layers(), header.top_k) ? 1 : 0;
    return found;
  });
}

std::vector<std::string> find_suspicions(const Comm& comm, const RoutingDump& dump,
                                         const SequenceCounts& counts, std::int64_t counting_rows) {
  const std::int64_t rows = dump.sequences.total_rows(), top_k = dump.header.top_k;
  std::vector<LayerSummary> mine;
  for (std::int64_t l = counts.layers().first; l < counts.layers().last; ++l)
    mine.push_back(summary_of(counts, LayerId(l)));
  const auto all = comm.gather_all(std::span<const LayerSummary>(mine));

  std::vector<LayerSummary> constant, dominated;
  for (const auto& layer : all) {
    if (layer.most > 1 && layer.experts_used <= top_k && dump.header.num_experts > top_k)
      constant.push_back(layer);
    else if (2 * layer.most > rows && layer.most * dump.header.num_experts > 2 * top_k * rows)
      dominated.push_back(layer);
  }
  std::vector<std::string> lines;
  if (!constant.empty())
    lines.push_back(layers_text(dump.header, constant) + ": all " + std::to_string(constant.front().most) +
                    " rows chose the same " + std::to_string(top_k) + " experts");
  if (!dominated.empty())
    lines.push_back(layers_text(dump.header, dominated) + ": expert " +
                    std::to_string(dominated.front().expert) + " is in " +
                    std::to_string(100 * dominated.front().most / rows) + " % of the rows");
  if (counting_rows > 0)
    lines.push_back(std::to_string(counting_rows) + " of " + std::to_string(rows) + " rows are 0.." +
                    std::to_string(top_k - 1) + " in every layer: padding?");
  return lines;
}

}  // namespace relibra
