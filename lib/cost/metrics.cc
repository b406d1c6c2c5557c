#include "lib/cost/metrics.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace relibra {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

/// Statistics of `value(sample)` over those samples that `wanted` accepts.
template <class Sample, class Wanted, class Value>
Statistics statistics_of(const std::vector<Sample>& samples, const Wanted& wanted, const Value& value) {
  std::vector<double> values;
  for (const Sample& s : samples)
    if (wanted(s)) values.push_back(static_cast<double>(value(s)));
  return statistics(std::move(values));
}

}  // namespace

double quantile(std::span<const double> ascending, double q) {
  assert(!ascending.empty());
  const double position = q * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const double a = ascending[below], b = ascending[std::min(below + 1, ascending.size() - 1)];
  const double t = position - static_cast<double>(below);
  return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);  // either end is met exactly
}

Statistics statistics(std::vector<double> values) {
  if (values.empty()) return {};
  Statistics s;
  s.count = static_cast<std::int64_t>(values.size());
  s.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(s.count);
  std::sort(values.begin(), values.end());
  s.p50 = quantile(values, 0.5);
  s.p99 = quantile(values, 0.99);
  s.max = values.back();
  return s;
}

std::optional<LoadMeasures> measure_loads(const Topology& topology, std::span<const std::int64_t> loads) {
  const auto total = std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
  if (total == 0) return {};
  const auto width = static_cast<std::size_t>(topology.domain_size());
  std::int64_t slowest_node = 0;
  for (std::size_t at = 0; at < loads.size(); at += width) {
    const auto node = loads.subspan(at, width);
    slowest_node = std::max(slowest_node, std::accumulate(node.begin(), node.end(), std::int64_t{0}));
  }
  const std::int64_t slowest = *std::max_element(loads.begin(), loads.end());
  return LoadMeasures{
      .skew = ratio(slowest * topology.ep_size, total),
      .node_skew = ratio(slowest_node * topology.domains_per_group(), total),
      .over_mean_bound = ratio(slowest, ceil_div(total, topology.ep_size)),
      .over_node_bound = ratio(slowest, ceil_div(slowest_node, topology.domain_size())),
  };
}

CopyMeasures measure_copies(const Topology& topology, std::span<const EpRankId> home,
                            std::span<const Copy> copies) {
  std::vector<std::int64_t> sent(static_cast<std::size_t>(topology.world()));
  for (const Copy& c : copies)
    ++sent[topology.rank_of(topology.group_of(c.rank), home[c.expert.index()]).index()];
  return {.copies = static_cast<std::int64_t>(copies.size()),
          .fan_out = *std::max_element(sent.begin(), sent.end())};
}

CrossNodePairs count_pairs(std::span<const std::int64_t> sent, std::span<const std::int64_t> received) {
  CrossNodePairs result;
  for (std::size_t n = 0; n < sent.size(); ++n) {
    result.pairs += sent[n];
    result.busiest = std::max({result.busiest, sent[n], received[n]});
  }
  return result;
}

double busiest_per_token(const CrossNodePairs& pairs, int nodes, std::int64_t rows) {
  return ratio(pairs.busiest * nodes, rows);
}

void sample_cells(const Plan& plan, const PlanCells& cells, std::span<const std::int64_t> rank_tokens_static,
                  std::span<const std::int64_t> rank_tokens, PlanSamples& out) {
  const Topology& t = plan.header.topology;
  const auto width = static_cast<std::size_t>(t.ep_size), world = static_cast<std::size_t>(t.world());
  for (std::int64_t cell = cells.cells.first; cell < cells.cells.last; ++cell) {
    const auto row = static_cast<std::size_t>(cell - cells.cells.first) * world;
    for (GroupId g : all<GroupId>(t.ep_groups)) {
      const auto loads_of = [&](std::span<const std::int64_t> table) {
        return measure_loads(t, table.subspan(row + g.index() * width, width));
      };
      const auto before = loads_of(rank_tokens_static), after = loads_of(rank_tokens);
      if (before && after)
        out.groups.push_back({.cell = cell, .group = g.value(), .before = *before, .after = *after});
    }
    const LayerId layer(cell % plan.header.num_layers());
    CellSample sample{.cell = cell};
    sample.copies = measure_copies(t, plan.placement.layer(layer), cells.copies_of(cell));
    out.cells.push_back(sample);
  }
}

PlanSummary summarise(const PlanHeader& header, const PlanSamples& samples, std::optional<LayerId> layer) {
  const auto in_layer = [&](const auto& sample) {
    return !layer || sample.cell % header.num_layers() == layer->value();
  };
  const auto side = [&](LoadMeasures GroupSample::*loads, CrossNodePairs CellSample::*pairs) {
    const auto of = [&](double LoadMeasures::*measure) {
      return statistics_of(samples.groups, in_layer, [&](const GroupSample& s) { return s.*loads.*measure; });
    };
    SideSummary result{.skew = of(&LoadMeasures::skew),
                       .node_skew = of(&LoadMeasures::node_skew),
                       .over_mean_bound = of(&LoadMeasures::over_mean_bound),
                       .over_node_bound = of(&LoadMeasures::over_node_bound)};
    for (const CellSample& s : samples.cells)
      if (in_layer(s)) result.cross_node_pairs += (s.*pairs).pairs;
    result.pairs_busiest = statistics_of(
        samples.cells, [&](const CellSample& s) { return in_layer(s) && s.rows > 0; },
        [&](const CellSample& s) { return busiest_per_token(s.*pairs, header.topology.nodes(), s.rows); });
    return result;
  };
  PlanSummary summary{.before = side(&GroupSample::before, &CellSample::before),
                      .after = side(&GroupSample::after, &CellSample::after)};
  summary.over_replica_bound = statistics_of(
      samples.groups, [&](const GroupSample& s) { return in_layer(s) && s.over_replica_bound > 0; },
      [](const GroupSample& s) { return s.over_replica_bound; });
  summary.copies =
      statistics_of(samples.cells, in_layer, [](const CellSample& s) { return s.copies.copies; });
  summary.fan_out =
      statistics_of(samples.cells, in_layer, [](const CellSample& s) { return s.copies.fan_out; });
  for (const CellSample& s : samples.cells)
    if (in_layer(s)) summary.copies_total += s.copies.copies;
  return summary;
}

MoveMeasures measure_moves(const Plan& plan, const ExpertBytes& bytes, std::optional<LayerId> layer) {
  MoveMeasures result;
  for (LayerId l : all<LayerId>(plan.placement.layers())) {
    if (layer && l != *layer) continue;
    for (ExpertId e : all<ExpertId>(plan.placement.experts()))
      if (plan.placement.home(l, e) != plan.previous.home(l, e)) ++result.experts;
  }
  result.weight_bytes = result.experts * bytes.weights * plan.header.topology.ep_groups;
  result.optimizer_bytes = result.experts * bytes.optimizer * plan.header.topology.ep_groups;
  return result;
}

}  // namespace relibra
