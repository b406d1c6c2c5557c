#include "apps/summary.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "lib/base/text.h"
#include "lib/base/units.h"

namespace relibra {
namespace {

/// A bar whose full width is `full`; what lies above 1.0 is what a rank waits for.
std::string bar(double value, double full) {
  constexpr double kWidth = 40;
  const auto cells = [&](double part) {
    return static_cast<std::size_t>(std::lround(std::clamp(part / full, 0.0, 1.0) * kWidth));
  };
  const std::size_t work = cells(1), all = std::max(cells(value), work);
  return std::string(work, '=') + std::string(all - work, '#');
}

void print_skew(std::ostream& out, const PlanSummary& summary) {
  const double full = summary.before.skew.mean;
  out << text("  slowest rank over mean, of %s (cell, group) pairs; = mean work, # waiting\n",
              format_count(summary.before.skew.count).c_str())
      << "              mean     p50     p99     max\n";
  const auto line = [&](const char* name, const Statistics& s) {
    out << text("    %-6s %7.4f %7.4f %7.4f %7.4f  %s\n", name, s.mean, s.p50, s.p99, s.max,
                bar(s.mean, full).c_str());
  };
  line("before", summary.before.skew);
  line("after", summary.after.skew);
}

void print_bounds(std::ostream& out, const PlanSummary& summary) {
  const auto pair = [&](const char* name, const Statistics& before, const Statistics& after) {
    out << text("  %-44s before %.4f, after %.4f (p99 %.4f)\n", name, before.mean, after.mean, after.p99);
  };
  pair("most loaded node over mean", summary.before.node_skew, summary.after.node_skew);
  pair("slowest rank over bound, copies anywhere", summary.before.over_mean_bound,
       summary.after.over_mean_bound);
  pair("slowest rank over bound, copies in the node", summary.before.over_node_bound,
       summary.after.over_node_bound);
  if (summary.over_replica_bound.count > 0)
    out << text("  %-44s after %.4f (p99 %.4f)\n", "slowest rank over bound, these homes, slots",
                summary.over_replica_bound.mean, summary.over_replica_bound.p99);
  if (summary.after.pairs_busiest.count > 0) {
    pair("(token, node) pairs a token, busiest node", summary.before.pairs_busiest,
         summary.after.pairs_busiest);
    out << "  (token, node) pairs that leave a node: before " << format_count(summary.before.cross_node_pairs)
        << ", after " << format_count(summary.after.cross_node_pairs) << '\n';
  }
}

void print_cost(std::ostream& out, const Plan& plan, const PlanSummary& summary) {
  out << text("  copies: %.1f a cell (most %.0f), at most %.0f of one home; %s in all\n", summary.copies.mean,
              summary.copies.max, summary.fan_out.max, format_count(summary.copies_total).c_str());
  if (plan.header.folded_copies > 0)
    out << "  folded: " << format_count(plan.header.folded_copies)
        << " copies were meant for a rank that holds the expert already\n";
  const std::int64_t homes = std::int64_t{plan.header.num_layers()} * plan.header.num_experts;
  out << "  moves: " << format_count(measure_moves(plan, {}).experts) << " of " << format_count(homes)
      << " experts change their rank\n";
}

void print_phases(std::ostream& out, const PlannedStep& step) {
  double total = 0, counting = 0;
  out << "  time:";
  for (const PhaseTime& phase : step.result.phases) {
    out << ' ' << phase.phase << ' ' << format_seconds(phase.seconds) << ',';
    total += phase.seconds;
    if (phase.phase == "count") counting = phase.seconds;
  }
  out << " in all " << format_seconds(total) << "; read " << format_bytes(double(step.bytes_read));
  if (counting > 0) out << " at " << format_bytes(double(step.bytes_read) / counting) << "/s";
  out << '\n';
}

}  // namespace

void print_plan(std::ostream& out, const std::string& path, const Plan& plan, const PlanSamples& samples) {
  const PlanHeader& header = plan.header;
  const Topology& topology = header.topology;
  const PlanSummary summary = summarise(header, samples);
  out << path << ": step " << header.step << ", policy " << header.policy << '\n'
      << text(
             "  %d layers x %d micro-batches, %d experts, top %d; %d ranks in %d EP group%s, %d a node; %d "
             "spare "
             "slots a rank\n",
             header.num_layers(), header.num_micro_batches, header.num_experts, header.top_k,
             topology.world(), topology.ep_groups, topology.ep_groups == 1 ? "" : "s", topology.gpus_per_node,
             header.physical_slots - home_slots(header.num_experts, topology.ep_size));
  print_skew(out, summary);
  print_bounds(out, summary);
  print_cost(out, plan, summary);
}

void print_summary(std::ostream& out, const PlannedStep& step, const PlanSamples& samples) {
  print_plan(out, step.path, step.result.plan, samples);
  print_phases(out, step);
}

}  // namespace relibra
