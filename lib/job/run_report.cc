#include "lib/job/run_report.h"

#include <algorithm>
#include <functional>
#include <iomanip>
#include <sstream>

#include "lib/base/text.h"
#include "lib/base/units.h"

namespace relibra {
namespace {

using exec::CellFigures;
using exec::Phase;

const RunVariant* find(const RunResult& result, std::string_view name) {
  for (const RunVariant& variant : result.variants)
    if (variant.name == name) return &variant;
  return nullptr;
}

void print_header(std::ostream& out, const RunResult& result) {
  const Topology& t = result.header.topology;
  out << "policy " << result.header.policy << ", step " << result.header.step << ": " << t.world()
      << " ranks (" << t.ep_groups << " EP group" << (t.ep_groups > 1 ? "s" : "") << " of " << t.ep_size
      << ", nodes of " << t.gpus_per_node << "), " << result.selection.micro_batches.size()
      << " micro-batches x " << result.selection.layers.size() << " layers\n";
  out << "hidden " << result.shape.hidden << ", intermediate " << result.shape.intermediate << ", "
      << (result.shape.type == kernels::Type::float32 ? "float32" : "bfloat16");
  if (!result.backend.empty())
    out << ", backend " << result.backend << " on " << result.device << ", " << result.processes
        << " processes" << (result.emulated ? " that carry the ranks in turn (compute only)" : "");
  out << "\n";
}

void print_memory(std::ostream& out, const RunResult& result) {
  out << "memory, largest of the ranks:\n";
  for (const exec::MemoryItem& item : result.memory)
    out << text("  %-44s %12s\n", item.what.c_str(), format_bytes(static_cast<double>(item.bytes)).c_str());
}

void print_verify(std::ostream& out, const RunResult& result) {
  if (result.reordering) {
    const auto& r = *result.reordering;
    out << "\nreordered " << r.moves << " experts a group, " << format_bytes(static_cast<double>(r.bytes))
        << " in " << format_seconds(r.seconds);
    if (r.wrong >= 0)
      out << (r.wrong == 0 ? "; weights and both moments are the same bits"
                           : "; FAILED: " + std::to_string(r.wrong) + " tensors differ");
    out << "\n";
  }
  if (!result.verify) return;
  out << "\nverified against the placement-free reference, ||a-b||/||b||, tolerance "
      << text("%.0e", result.verify->tolerance) << ": " << (result.verify->passed() ? "passed" : "FAILED")
      << "\n";
  for (const exec::VerifyKind& kind : result.verify->kinds)
    out << text("  %-24s %9.1e  worst: %s\n", kind.what.c_str(), kind.error, kind.worst.c_str());
  out << text("  %-24s %9.1e  of %s (limit %.0e)\n", result.verify->row.what.c_str(),
              result.verify->row.error, result.verify->row.worst.c_str(), 10 * result.verify->tolerance);
}

using Cell = std::function<std::string(const RunVariant&, const VariantFigures&)>;

void print_row(std::ostream& out, const RunResult& result, const char* name, const Cell& cell) {
  out << text("%-34s", name);
  for (const RunVariant& variant : result.variants)
    out << text("%14s", cell(variant, figures_of(result, variant)).c_str());
  out << "\n";
}

void print_times(std::ostream& out, const RunResult& result) {
  const auto phase = [](Phase p) {
    return [p](const RunVariant& v, const VariantFigures&) { return format_seconds(v.measured.mean(p)); };
  };
  out << "\nseconds of a step, median of " << result.variants[0].measured.step.size()
      << " repeats; mean over ranks\n";
  print_row(out, result, "", [](auto& v, auto&) { return v.name; });
  print_row(out, result, "step, slowest rank", [](auto&, auto& f) { return format_seconds(f.step); });
  print_row(out, result, "expert compute", phase(Phase::compute));
  print_row(out, result, "  slowest rank of each cell",
            [](auto&, auto& f) { return format_seconds(f.slowest_compute); });
  print_row(out, result, "waiting for the slowest", phase(Phase::wait));
  print_row(out, result, "dispatch", phase(Phase::dispatch));
  print_row(out, result, "combine", phase(Phase::combine));
  print_row(out, result, "waiting for copies", [](auto&, auto& f) { return format_seconds(f.push_exposed); });
  print_row(out, result, "  of weights and gradients under way",
            [](auto&, auto& f) { return format_seconds(f.push); });
  print_row(out, result, "attention stand-in", phase(Phase::attention));
}

void print_emulated(std::ostream& out, const RunResult& result) {
  out << "\nexpert compute, summed over cells, forward and backward\n";
  print_row(out, result, "", [](auto& v, auto&) { return v.name; });
  print_row(out, result, "slowest rank of each cell",
            [](auto&, auto& f) { return format_seconds(f.slowest_compute); });
  print_row(out, result, "mean rank", [](auto&, auto& f) { return format_seconds(f.mean_compute); });
}

void print_ratios(std::ostream& out, const RunResult& result) {
  print_row(out, result, "skew of load, max / mean",
            [](auto&, auto& f) { return text("%.3f", f.load_skew); });
  print_row(out, result, "skew of compute time", [](auto&, auto& f) { return text("%.3f", f.compute_skew); });
  print_row(out, result, "GFLOP/s of a computing rank",
            [](auto&, auto& f) { return text("%.1f", f.gflops); });
}

void print_bandwidths(std::ostream& out, const RunResult& result) {
  const RunBandwidths b = bandwidths_of(result, result.variants[0]);
  out << "\nbandwidth of the plan, GB/s (algorithm, bus as nccl-tests defines them)\n";
  const auto line = [&](const char* name, const Bandwidth& bandwidth) {
    if (bandwidth.algorithm > 0)
      out << text("  %-30s %8.2f %8.2f\n", name, bandwidth.algorithm / 1e9, bandwidth.bus / 1e9);
  };
  line("dispatch", b.dispatch);
  line("combine", b.combine);
  line("weights of copies", b.push);
  line("gradients of copies", b.gradients);
  line("sum over homes", b.homes);
}

void print_comparison(std::ostream& out, const RunResult& result) {
  const RunVariant *before = find(result, "static"), *ideal = find(result, "balanced");
  if (!before || !ideal) return;
  const auto plan = figures_of(result, result.variants[0]), was = figures_of(result, *before);
  const auto best = figures_of(result, *ideal);
  out << text(
      "\n%.2f times as fast as static, %.3f of balanced; waiting for the slowest %.1f %% of a step before, "
      "%.1f %% after\n",
      was.step / plan.step, best.step / plan.step, 100 * was.wait / was.step, 100 * plan.wait / plan.step);
}

/// Totals of a rank over the selected cells.
void print_schedule(std::ostream& out, const RunResult& result) {
  const std::size_t cells = result.selection.cells();
  out << "\nschedule, totals over cells, one direction\n"
      << "  rank    tokens   rows out  other ranks  other nodes    rows in  assignments  GEMM groups  copies "
         " pushes  "
         "relayed  gradients\n";
  for (RankId r : all<RankId>(result.header.topology.world())) {
    CellFigures sum;
    for (std::size_t c = 0; c < cells; ++c) {
      const CellFigures& f = result.variants[0].figures[r.index() * cells + c];
      for (const auto member : {&CellFigures::tokens, &CellFigures::sent_rows, &CellFigures::sent_away,
                                &CellFigures::sent_to_nodes, &CellFigures::received_rows,
                                &CellFigures::assignments, &CellFigures::groups, &CellFigures::copies,
                                &CellFigures::pushed, &CellFigures::relayed, &CellFigures::gradients})
        sum.*member += f.*member;
    }
    const auto l = [](std::int64_t value) { return static_cast<long long>(value); };
    out << text("%6d%10lld%11lld%13lld%13lld%11lld%13lld%13lld%8lld%8lld%9lld%11lld\n", r.value(),
                l(sum.tokens), l(sum.sent_rows), l(sum.sent_away), l(sum.sent_to_nodes), l(sum.received_rows),
                l(sum.assignments), l(sum.groups), l(sum.copies), l(sum.pushed), l(sum.relayed),
                l(sum.gradients));
  }
}

/// One line for scripts: fields name=value, times in seconds.
void print_result_line(std::ostream& out, const RunResult& result) {
  const auto plan = figures_of(result, result.variants[0]);
  out << "RESULT run policy=" << result.header.policy << " ranks=" << result.header.topology.world()
      << " cells=" << result.selection.cells()
      << " backend=" << (result.backend.empty() ? "none" : result.backend);
  if (result.emulated) out << " emulated=yes";
  if (result.verify || result.reordering) out << " verified=" << (run_passed(result) ? "yes" : "no");
  out << text(" load_skew=%.4f", plan.load_skew);
  if (!result.variants[0].measured.visits.empty())
    out << text(" step=%.6f compute=%.6f wait=%.6f", plan.step, plan.slowest_compute, plan.wait);
  const RunVariant *before = find(result, "static"), *ideal = find(result, "balanced");
  if (before && ideal && plan.step > 0) {
    const auto was = figures_of(result, *before), best = figures_of(result, *ideal);
    out << text(" static_step=%.6f static_wait=%.6f balanced_step=%.6f speedup=%.4f of_balanced=%.4f",
                was.step, was.wait, best.step, was.step / plan.step, best.step / plan.step);
  }
  out << "\n";
}

}  // namespace

void print_run(std::ostream& out, const RunResult& result) {
  print_header(out, result);
  print_memory(out, result);
  print_verify(out, result);
  if (result.backend.empty()) print_schedule(out, result);
  if (!result.variants[0].measured.visits.empty()) {
    if (result.emulated)
      print_emulated(out, result);
    else
      print_times(out, result);
    print_ratios(out, result);
    if (!result.emulated) print_bandwidths(out, result);
    print_comparison(out, result);
  }
  print_result_line(out, result);
}

}  // namespace relibra
