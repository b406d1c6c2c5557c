#include "lib/job/run_report.h"

namespace relibra {
namespace {

using exec::CellFigures;
using exec::Mark;
using exec::Phase;
using nlohmann::ordered_json;

ordered_json cell_json(const CellFigures& f) {
  return {{"tokens", f.tokens},
          {"sent_rows", f.sent_rows},
          {"sent_to_other_ranks", f.sent_away},
          {"sent_to_other_nodes", f.sent_to_nodes},
          {"received_rows", f.received_rows},
          {"assignments", f.assignments},
          {"gemm_groups", f.groups},
          {"copies", f.copies},
          {"pushed", f.pushed},
          {"relayed", f.relayed},
          {"gradients_received", f.gradients}};
}

ordered_json verify_json(const exec::VerifyReport& report) {
  ordered_json kinds = ordered_json::object();
  for (const exec::VerifyKind& kind : report.kinds)
    kinds[kind.what] = {{"error", kind.error}, {"worst", kind.worst}};
  return {{"passed", report.passed()},
          {"tolerance", report.tolerance},
          {"tensors", kinds},
          {"worst_row", {{"error", report.row.error}, {"of", report.row.worst}}}};
}

/// One entry a visit: seconds by phase, each a list over ranks.
ordered_json visits_json(const RunResult& result, const RunVariant& variant) {
  ordered_json visits = ordered_json::array();
  for (std::size_t v = 0; v < variant.measured.visits.size(); ++v) {
    const exec::Visit& visit = variant.measured.visits[v];
    ordered_json entry = {
        {"micro_batch", result.selection.micro_batches[static_cast<std::size_t>(visit.micro_batch)].value()},
        {"layer", result.selection.layers[static_cast<std::size_t>(visit.layer)].value()},
        {"direction", visit.backward ? "backward" : "forward"}};
    for (std::size_t p = 0; p < exec::kPhases; ++p) {
      const auto phase = static_cast<Phase>(p);
      if (result.emulated && phase != Phase::compute) continue;
      ordered_json ranks = ordered_json::array();
      for (RankId r : all<RankId>(variant.measured.ranks)) ranks.push_back(variant.measured.at(r, v, phase));
      entry[exec::name_of(phase)] = ranks;
    }
    visits.push_back(entry);
  }
  return visits;
}

ordered_json schedule_json(const RunResult& result, const RunVariant& variant) {
  ordered_json cells = ordered_json::array();
  const std::size_t count = result.selection.cells();
  for (std::size_t c = 0; c < count; ++c) {
    ordered_json ranks = ordered_json::array();
    for (std::size_t r = 0; r * count < variant.figures.size(); ++r)
      ranks.push_back(cell_json(variant.figures[r * count + c]));
    cells.push_back(
        {{"micro_batch", result.selection.micro_batches[c / result.selection.layers.size()].value()},
         {"layer", result.selection.layers[c % result.selection.layers.size()].value()},
         {"ranks", ranks}});
  }
  return cells;
}

ordered_json bandwidth_json(const Bandwidth& b) {
  return {{"algorithm", b.algorithm}, {"bus", b.bus}};
}

ordered_json variant_json(const RunResult& result, const RunVariant& variant) {
  const VariantFigures f = figures_of(result, variant);
  ordered_json json = {{"name", variant.name}, {"load_skew", f.load_skew}};
  if (!variant.measured.visits.empty()) {
    json["seconds"] = {
        {"step", f.step}, {"slowest_compute", f.slowest_compute}, {"mean_compute", f.mean_compute},
        {"wait", f.wait}, {"copies_waited_for", f.push_exposed},  {"copies_under_way", f.push}};
    json["compute_skew"] = f.compute_skew;
    json["gflops"] = f.gflops;
    json["step_repeats"] = variant.measured.step;
    if (!result.emulated) {
      const RunBandwidths b = bandwidths_of(result, variant);
      json["bytes_per_second"] = {{"dispatch", bandwidth_json(b.dispatch)},
                                  {"combine", bandwidth_json(b.combine)},
                                  {"weights", bandwidth_json(b.push)},
                                  {"gradients", bandwidth_json(b.gradients)},
                                  {"homes", bandwidth_json(b.homes)}};
    }
    json["visits"] = visits_json(result, variant);
  }
  json["schedule"] = schedule_json(result, variant);
  return json;
}

/// A named span between two marks of a visit.
struct Span {
  const char* name;
  Mark from, to;
};
constexpr Span kSpans[] = {
    {"attention", Mark::begin, Mark::attention},
    {"gather", Mark::attention, Mark::gathered},
    {"dispatch", Mark::gathered, Mark::dispatched},
    {"wait for weights", Mark::dispatched, Mark::weights},
    {"experts", Mark::weights, Mark::hidden},
    {"add gradients of copies", Mark::hidden, Mark::settled},
    {"weight gradients", Mark::settled, Mark::computed},
    {"wait for the slowest", Mark::computed, Mark::released},
    {"combine", Mark::released, Mark::returned},
    {"add up", Mark::returned, Mark::combined},
};

class TraceEvents {
 public:
  TraceEvents(const RunResult& result, ordered_json& events) : result_(result), events_(events) {}

  void name_tracks(int process, const RunVariant& variant) {
    metadata("process_name", process, 0, variant.name);
    for (std::size_t r = 0; r < variant.last.size(); ++r) {
      const auto track = static_cast<int>(2 * r);
      metadata("thread_name", process, track, "rank " + std::to_string(r) + ", compute and tokens");
      metadata("thread_name", process, track + 1, "rank " + std::to_string(r) + ", weights");
      for (int stream = 0; stream < 2; ++stream)
        events_.push_back({{"ph", "M"},
                           {"name", "thread_sort_index"},
                           {"pid", process},
                           {"tid", track + stream},
                           {"args", {{"sort_index", track + stream}}}});
    }
  }

  void add_visit(int process, std::size_t rank, const exec::VisitTimes& visit) {
    const auto track = static_cast<int>(2 * rank);
    for (const Span& span : kSpans) {
      const double begin = visit.at[static_cast<std::size_t>(span.from)];
      add(process, track, span.name, begin, begin + visit.between(span.from, span.to), visit.visit);
    }
    add(process, track + 1, "weights of copies", visit.push.begin, visit.push.end, visit.visit);
    add(process, track + 1, "gradients of copies", visit.gradients.begin, visit.gradients.end, visit.visit);
  }

 private:
  void metadata(const char* what, int process, int track, const std::string& name) {
    events_.push_back(
        {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", track}, {"args", {{"name", name}}}});
  }
  /// Microseconds, as the format has them. Spans of no length would only be clutter.
  void add(int process, int track, const char* name, double begin, double end, const exec::Visit& visit) {
    if (end - begin <= 0) return;
    events_.push_back(
        {{"ph", "X"},
         {"name", name},
         {"pid", process},
         {"tid", track},
         {"ts", begin * 1e6},
         {"dur", (end - begin) * 1e6},
         {"args",
          {{"micro_batch",
            result_.selection.micro_batches[static_cast<std::size_t>(visit.micro_batch)].value()},
           {"layer", result_.selection.layers[static_cast<std::size_t>(visit.layer)].value()},
           {"direction", visit.backward ? "backward" : "forward"}}}});
  }

  const RunResult& result_;
  ordered_json& events_;
};

}  // namespace

ordered_json run_json(const RunResult& result) {
  const Topology& t = result.header.topology;
  ordered_json memory = ordered_json::object();
  for (const exec::MemoryItem& item : result.memory) memory[item.what] = item.bytes;
  ordered_json json = {{"format", "relibra.run"},
                       {"version", 1},
                       {"policy", result.header.policy},
                       {"step", result.header.step},
                       {"ep_size", t.ep_size},
                       {"ep_groups", t.ep_groups},
                       {"gpus_per_node", t.gpus_per_node},
                       {"hidden", result.shape.hidden},
                       {"intermediate", result.shape.intermediate},
                       {"type", result.shape.type == kernels::Type::float32 ? "float32" : "bfloat16"},
                       {"attention_columns", result.shape.attention_columns},
                       {"backend", result.backend.empty() ? ordered_json() : ordered_json(result.backend)},
                       {"device", result.device.empty() ? ordered_json() : ordered_json(result.device)},
                       {"processes", result.processes},
                       {"emulated", result.emulated},
                       {"memory_bytes", memory}};
  if (result.reordering)
    json["reordering"] = {
        {"moves", result.reordering->moves},
        {"bytes", result.reordering->bytes},
        {"seconds", result.reordering->seconds},
        {"wrong_tensors",
         result.reordering->wrong >= 0 ? ordered_json(result.reordering->wrong) : ordered_json()}};
  if (result.verify) json["verify"] = verify_json(*result.verify);
  json["variants"] = ordered_json::array();
  for (const RunVariant& variant : result.variants) json["variants"].push_back(variant_json(result, variant));
  return json;
}

ordered_json run_trace(const RunResult& result) {
  ordered_json events = ordered_json::array();
  TraceEvents trace(result, events);
  for (std::size_t v = 0; v < result.variants.size(); ++v) {
    const auto process = static_cast<int>(v);
    trace.name_tracks(process, result.variants[v]);
    for (std::size_t r = 0; r < result.variants[v].last.size(); ++r)
      for (const exec::VisitTimes& visit : result.variants[v].last[r].visits)
        trace.add_visit(process, r, visit);
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", events}};
}

}  // namespace relibra
