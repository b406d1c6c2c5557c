#include "lib/job/compare_report.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/base/units.h"

namespace relibra {
namespace {

/// "32 x 1, 8 a node": EP size, groups, ranks of a node.
std::string shape_name(const Topology& t) {
  return text("%d x %d, %d a node", t.ep_size, t.ep_groups, t.gpus_per_node);
}

void print_shape(std::ostream& out, const Comparison& c) {
  const PlanHeader& h = c.at_static().header;
  out << text("%d layers x %d micro-batches, %d experts, top %d; ", h.num_layers(), h.num_micro_batches,
              h.num_experts, h.top_k)
      << text("%d ranks in %d EP group%s, %d a node; %d spare slot%s a rank\n", c.topology.world(),
              c.topology.ep_groups, c.topology.ep_groups == 1 ? "" : "s", c.topology.gpus_per_node,
              c.replica_slots, c.replica_slots == 1 ? "" : "s");
}

/// Dashes where a control has nothing to count.
void print_policies(std::ostream& out, const Comparison& c) {
  out << text("%-18s %7s %7s %7s %7s %7s %6s %7s %5s %8s %7s %8s %9s %7s %7s\n", "policy", "skew", "p99",
              "max", "/bound", "node", "pairs", "copies", "fan", "slots", "moves", "planned", "step",
              "/static", "of bal.");
  for (const PolicyResult& p : c.policies) {
    if (!p.refusal.empty()) continue;
    const SideSummary& s = p.summary.after;
    const double step = p.time.total();
    out << text("%-18s %7.4f %7.4f %7.4f %7.4f %7.4f %6.2f %7.1f %5.0f ", p.policy.c_str(), s.skew.mean,
                s.skew.p99, s.skew.max, p.summary.over_replica_bound.mean, s.node_skew.mean,
                s.pairs_busiest.mean, p.summary.copies.mean, p.summary.fan_out.max)
        << text("%8s %7lld %8s %9s %7.3f %6.1f%%\n", format_bytes(double(p.slot_bytes)).c_str(),
                static_cast<long long>(p.moves.experts), format_seconds(p.planning_seconds).c_str(),
                format_seconds(step).c_str(), c.over_static(p), 100 * c.of_balanced(p));
  }
  for (const PolicyResult& p : c.policies)
    if (!p.refusal.empty()) out << p.policy << " has no plan: " << p.refusal << '\n';
}

void print_terms(std::ostream& out, const Comparison& c, const Cluster& cluster) {
  out << "\nmodelled step on " << cluster.name << ", seconds\n"
      << text("%-18s %10s %10s %10s %10s %10s %10s %10s %10s %10s\n", "policy", "attention", "dispatch",
              "compute", "(mean", "waiting)", "combine", "push", "moves", "step");
  for (const PolicyResult& p : c.policies) {
    if (!p.refusal.empty()) continue;
    const StepTimes& t = p.time;
    out << text("%-18s %10.6f %10.6f %10.6f %10.6f %10.6f %10.6f %10.6f %10.6f %10.6f\n", p.policy.c_str(),
                t.cells.attention, t.cells.dispatch, t.cells.compute, t.compute_mean,
                t.cells.compute - t.compute_mean, t.cells.combine, t.cells.push, t.moves, t.total());
  }
}

/// The policy with the least modelled step at every cluster, the control aside.
void print_clusters(std::ostream& out, const CompareReport& report) {
  out << text("\n%-34s %-18s %10s %8s %8s\n", "least step on", "policy", "step", "/static", "of bal.");
  for (const Comparison& c : report.comparisons) {
    const PolicyResult* least = nullptr;
    for (const PolicyResult& p : c.policies)
      if (p.refusal.empty() && &p != &c.balanced() && (!least || p.time.total() < least->time.total()))
        least = &p;
    out << text("%-34s %-18s %10.6f %8.3f %7.1f%%\n", report.options.clusters[c.cluster].name.c_str(),
                least->policy.c_str(), least->time.total(), c.over_static(*least),
                100 * c.of_balanced(*least));
  }
}

void print_sweep(std::ostream& out, const CompareReport& report) {
  out << text("%-22s %5s  %-18s %8s %8s %8s %9s %10s %8s %8s\n", "ranks", "slots", "policy", "skew", "p99",
              "copies", "memory", "step", "/static", "of bal.");
  for (const Comparison& c : report.comparisons)
    for (const PolicyResult& p : c.policies) {
      if (c.cluster > 0 || !p.refusal.empty()) continue;
      const double step = p.time.total();
      out << text("%-22s %5d  %-18s %8.4f %8.4f ", shape_name(c.topology).c_str(), c.replica_slots,
                  p.policy.c_str(), p.summary.after.skew.mean, p.summary.after.skew.p99)
          << text("%8.1f %9s %10.6f %8.3f %7.1f%%\n", p.summary.copies.mean,
                  format_bytes(double(p.slot_bytes)).c_str(), step, c.over_static(p), 100 * c.of_balanced(p));
    }
  out << "\nfewest slots within 1 % of a policy's fastest step\n";
  for (const EnoughSlots& e : enough_slots(report.comparisons))
    if (e.cluster == 0)
      out << text("%-22s %5d  %-18s %10.6f, fastest %10.6f\n", shape_name(e.topology).c_str(), e.slots,
                  e.policy.c_str(), e.seconds, e.fastest);
}

}  // namespace

void print_compare(std::ostream& out, const CompareReport& report) {
  const CompareOptions& o = report.options;
  const RoutingHeader& h = report.dump.header;
  out << "step " << h.step << (h.model.empty() ? "" : " of " + h.model) << ": "
      << format_count(report.dump.sequences.total_rows()) << " rows, each for "
      << text("%g", o.time.token_factor) << "; model " << o.model.name << ", cluster "
      << o.clusters.front().name << '\n';
  if (report.calibration)
    out << text("calibrated on %lld times, %.1f %% off on average\n",
                static_cast<long long>(report.calibration->samples), 100 * report.calibration->error);
  if (report.swept) return print_sweep(out, report);
  const Comparison& c = report.comparisons.front();
  print_shape(out, c);
  out << '\n';
  print_policies(out, c);
  print_terms(out, c, o.clusters.front());
  if (o.clusters.size() > 1) print_clusters(out, report);
}

void print_csv(std::ostream& out, const CompareReport& report) {
  out << "ep_size,ep_groups,gpus_per_node,replica_slots,policy,cluster,skew_mean,skew_p99,skew_max,"
         "over_replica_bound,node_skew,pairs_busiest,copies,fan_out_max,slot_bytes,moves,planning_seconds,"
         "attention,dispatch,compute,compute_of_mean_rank,combine,push,moving,step,over_static,of_balanced\n";
  for (const Comparison& c : report.comparisons)
    for (const PolicyResult& p : c.policies) {
      if (!p.refusal.empty()) continue;
      const SideSummary& s = p.summary.after;
      const StepTimes& t = p.time;
      out << text("%d,%d,%d,%d,%s,\"%s\",", c.topology.ep_size, c.topology.ep_groups,
                  c.topology.gpus_per_node, c.replica_slots, p.policy.c_str(),
                  report.options.clusters[c.cluster].name.c_str())
          << text("%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%lld,%lld,%.6g,", s.skew.mean, s.skew.p99,
                  s.skew.max, p.summary.over_replica_bound.mean, s.node_skew.mean, s.pairs_busiest.mean,
                  p.summary.copies.mean, p.summary.fan_out.max, static_cast<long long>(p.slot_bytes),
                  static_cast<long long>(p.moves.experts), p.planning_seconds)
          << text("%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g\n", t.cells.attention, t.cells.dispatch,
                  t.cells.compute, t.compute_mean, t.cells.combine, t.cells.push, t.moves, t.total(),
                  c.over_static(p), c.of_balanced(p));
    }
}

}  // namespace relibra
