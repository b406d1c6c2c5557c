#include "lib/job/compare_report.h"
#include "lib/job/metrics.h"

namespace relibra {
namespace {

using Json = nlohmann::ordered_json;

Json times_json(const CellTimes& t) {
  return {{"attention", t.attention},
          {"dispatch", t.dispatch},
          {"compute", t.compute},
          {"combine", t.combine},
          {"push", t.push}};
}

/// The cell that takes longest, with all that goes into its terms.
Json cell_json(const PolicyResult& policy, const CompareOptions& options, const Cluster& cluster,
               const StepTimes& step) {
  const StepWork& work = policy.work;
  const GroupWork& group = work.groups[step.slowest];
  Json json = {
      {"micro_batch", group.cell / work.layers}, {"layer", group.cell % work.layers}, {"group", group.group}};
  json["tokens"] = group.rows;
  json["pairs"] = group.pairs;
  json["rank_assignments"] = work.rows_of(step.slowest);
  json["rank_experts"] = work.experts_of(step.slowest);
  json["copies_in_node"] = group.push.in_node;
  json["copies_across_nodes"] = group.push.across_nodes;
  json["seconds"] = times_json(cell_times(cluster, options.model, options.time, work, step.slowest));
  return json;
}

Json step_json(const Comparison& c, const PolicyResult& policy, const CompareOptions& options) {
  const StepTimes& step = policy.time;
  Json terms = times_json(step.cells);
  terms["moves"] = step.moves;
  return {{"seconds", step.total()},
          {"over_static", c.over_static(policy)},
          {"of_balanced", c.of_balanced(policy)},
          {"terms", std::move(terms)},
          {"compute_of_mean_rank", step.compute_mean},
          {"slowest_cell", cell_json(policy, options, options.clusters[c.cluster], step)}};
}

Json policy_json(const Comparison& c, const PolicyResult& policy, const CompareOptions& options) {
  if (!policy.refusal.empty()) return {{"policy", policy.policy}, {"refusal", policy.refusal}};
  const SideSummary& after = policy.summary.after;
  Json copies = statistics_json(policy.summary.copies);
  copies["total"] = policy.summary.copies_total;
  Json json = {{"policy", policy.policy},
               {"skew", statistics_json(after.skew)},
               {"node_skew", statistics_json(after.node_skew)},
               {"over_mean_bound", statistics_json(after.over_mean_bound)},
               {"over_node_bound", statistics_json(after.over_node_bound)},
               {"over_replica_bound", statistics_json(policy.summary.over_replica_bound)},
               {"pairs_busiest", statistics_json(after.pairs_busiest)},
               {"cross_node_pairs", after.cross_node_pairs},
               {"copies", std::move(copies)},
               {"fan_out", statistics_json(policy.summary.fan_out)},
               {"replica_domain", policy.header.replica_domain == ReplicaDomain::node ? "node" : "group"},
               {"spare_slots", policy.spare_slots},
               {"resident_copies", policy.work.resident_copies},
               {"slot_bytes", policy.slot_bytes},
               {"folded_copies", policy.header.folded_copies},
               {"moves",
                {{"experts", policy.moves.experts},
                 {"weight_bytes", policy.moves.weight_bytes},
                 {"optimizer_bytes", policy.moves.optimizer_bytes},
                 {"busiest_rank_in_node", policy.work.moves.in_node},
                 {"busiest_rank_across_nodes", policy.work.moves.across_nodes}}},
               {"planning_seconds", policy.planning_seconds},
               {"step", step_json(c, policy, options)}};
  return json;
}

Json shape_json(const Topology& topology) {
  return {{"ep_size", topology.ep_size},
          {"num_ep_groups", topology.ep_groups},
          {"gpus_per_node", topology.gpus_per_node}};
}

Json comparison_json(const Comparison& c, const CompareOptions& options) {
  Json json = {{"cluster", options.clusters[c.cluster].name}};
  json.update(shape_json(c.topology));
  json["replica_slots"] = c.replica_slots;
  json["num_micro_batches"] = c.at_static().header.num_micro_batches;
  json["policies"] = Json::array();
  for (const PolicyResult& policy : c.policies) json["policies"].push_back(policy_json(c, policy, options));
  return json;
}

}  // namespace

Json compare_json(const CompareReport& report) {
  const RoutingHeader& h = report.dump.header;
  const CompareOptions& o = report.options;
  Json json = {{"format", "relibra.compare"},
               {"version", 1},
               {"dump",
                {{"step", h.step},
                 {"model", h.model},
                 {"num_layers", h.num_layers()},
                 {"num_experts", h.num_experts},
                 {"top_k", h.top_k},
                 {"sequences", report.dump.sequences.size()},
                 {"rows", report.dump.sequences.total_rows()},
                 {"digest", report.digest}}},
               {"options",
                {{"tolerance", o.plan.tolerance},
                 {"max_fan_out", o.plan.max_fan_out},
                 {"effort", o.plan.effort},
                 {"seed", o.plan.seed},
                 {"token_factor", o.time.token_factor},
                 {"overlap", o.time.overlap}}},
               {"model", model_json(o.model)},
               {"clusters", Json::array()}};
  for (const Cluster& cluster : o.clusters) json["clusters"].push_back(cluster_json(cluster));
  if (report.calibration)
    json["calibration"] = {{"samples", report.calibration->samples}, {"error", report.calibration->error}};
  json["comparisons"] = Json::array();
  for (const Comparison& c : report.comparisons) json["comparisons"].push_back(comparison_json(c, o));
  if (!report.swept) return json;
  json["enough_slots"] = Json::array();
  for (const EnoughSlots& e : enough_slots(report.comparisons)) {
    Json entry = {{"cluster", o.clusters[e.cluster].name}};
    entry.update(shape_json(e.topology));
    entry.update({{"policy", e.policy},
                  {"replica_slots", e.slots},
                  {"seconds", e.seconds},
                  {"fastest_seconds", e.fastest}});
    json["enough_slots"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace relibra
