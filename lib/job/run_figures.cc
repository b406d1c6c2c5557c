#include <algorithm>

#include "lib/job/run_report.h"

namespace relibra {
namespace {

using exec::CellFigures;
using exec::Phase;

double ratio(double a, double b) {
  return b > 0 ? a / b : 0;
}

std::size_t cells_of(const RunResult& result) {
  return result.selection.cells();
}

const CellFigures& figures_at(const RunResult& result, const RunVariant& variant, RankId r,
                              const exec::Visit& v) {
  const std::size_t cell =
      result.selection.cell(static_cast<std::size_t>(v.micro_batch), static_cast<std::size_t>(v.layer));
  return variant.figures[r.index() * cells_of(result) + cell];
}

/// Sum over cells and groups of the most loaded rank, over that of the mean.
double load_skew(const RunResult& result, const RunVariant& variant) {
  const Topology& t = result.header.topology;
  std::int64_t slowest = 0, total = 0;
  for (std::size_t c = 0; c < cells_of(result); ++c)
    for (int first = 0; first < t.world(); first += t.ep_size) {
      std::int64_t largest = 0;
      for (int r = first; r < first + t.ep_size; ++r) {
        const std::int64_t load =
            variant.figures[static_cast<std::size_t>(r) * cells_of(result) + c].assignments;
        largest = std::max(largest, load);
        total += load;
      }
      slowest += largest;
    }
  return total ? static_cast<double>(slowest * t.ep_size) / static_cast<double>(total) : 1;
}

double flops(const RunResult& result, const RunVariant& variant) {
  std::int64_t assignments = 0;
  for (const CellFigures& f : variant.figures) assignments += f.assignments;
  return static_cast<double>(assignments) * (result.shape.forward_flops() + result.shape.backward_flops());
}

/// Bytes of the busiest rank in an exchange, with and without what it sends itself, and the slowest rank's
/// time; summed over visits.
template <class Bytes, class Away>
Bandwidth bandwidth(const RunResult& result, const RunVariant& variant, Phase phase, bool backward_only,
                    Bytes&& bytes, Away&& away) {
  double moved = 0, moved_away = 0, seconds = 0;
  const auto& visits = variant.measured.visits;
  for (std::size_t v = 0; v < visits.size(); ++v) {
    if (backward_only && !visits[v].backward) continue;
    std::int64_t largest = 0, largest_away = 0;
    double slowest = 0;
    for (RankId r : all<RankId>(result.header.topology.world())) {
      const CellFigures& f = figures_at(result, variant, r, visits[v]);
      largest = std::max(largest, bytes(f));
      largest_away = std::max(largest_away, away(f));
      slowest = std::max(slowest, variant.measured.at(r, v, phase));
    }
    if (slowest == 0 || largest == 0) continue;
    moved += static_cast<double>(largest);
    moved_away += static_cast<double>(largest_away);
    seconds += slowest;
  }
  return {ratio(moved, seconds), ratio(moved_away, seconds)};
}

}  // namespace

VariantFigures figures_of(const RunResult& result, const RunVariant& variant) {
  const exec::Measured& m = variant.measured;
  VariantFigures figures{.load_skew = load_skew(result, variant)};
  if (m.visits.empty()) return figures;
  const int ep_size = result.header.topology.ep_size;
  figures.slowest_compute = m.slowest(Phase::compute, ep_size);
  figures.mean_compute = m.mean(Phase::compute);
  figures.compute_skew = ratio(figures.slowest_compute, figures.mean_compute);
  figures.step = result.emulated ? figures.slowest_compute : m.step_seconds();
  figures.wait = result.emulated ? figures.slowest_compute - figures.mean_compute : m.mean(Phase::wait);
  figures.push_exposed = m.mean(Phase::push_wait) + m.mean(Phase::gradient_wait);
  figures.push = m.mean(Phase::push) + m.mean(Phase::gradients);
  figures.gflops = ratio(flops(result, variant) / m.ranks, figures.mean_compute) / 1e9;
  return figures;
}

RunBandwidths bandwidths_of(const RunResult& result, const RunVariant& variant) {
  const std::int64_t row = result.shape.hidden * result.shape.element_bytes();
  const auto rows = [&](const CellFigures& f) { return std::max(f.sent_rows, f.received_rows) * row; };
  const auto away = [&](const CellFigures& f) { return std::max(f.sent_away, f.received_away) * row; };
  const auto pushed = [&](const CellFigures& f) {
    return std::max(f.pushed, f.copies) * result.shape.expert_bytes();
  };
  const auto returned = [&](const CellFigures& f) {
    return std::max(f.gradients, f.copies) * result.shape.expert_elements() * 4;
  };
  RunBandwidths all;
  if (result.emulated || variant.measured.visits.empty()) return all;
  all.dispatch = bandwidth(result, variant, Phase::dispatch_transfer, false, rows, away);
  all.combine = bandwidth(result, variant, Phase::combine_transfer, false, rows, away);
  all.push = bandwidth(result, variant, Phase::push, false, pushed, pushed);
  all.gradients = bandwidth(result, variant, Phase::gradients, true, returned, returned);
  const int homes = result.header.topology.ep_groups;
  if (homes > 1) {
    const auto& seconds = variant.measured.home_sum;
    const double bytes =
        static_cast<double>(static_cast<std::int64_t>(result.selection.layers.size()) *
                            result.header.slots_per_rank * result.shape.expert_elements() * 4);
    all.homes.algorithm = ratio(bytes, *std::max_element(seconds.begin(), seconds.end()));
    all.homes.bus = all.homes.algorithm * 2 * (homes - 1) / homes;
  }
  return all;
}

bool run_passed(const RunResult& result) {
  return (!result.verify || result.verify->passed()) && (!result.reordering || result.reordering->wrong <= 0);
}

}  // namespace relibra
