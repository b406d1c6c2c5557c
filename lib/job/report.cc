#include "lib/job/report.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "lib/comm/agree.h"
#include "lib/job/plan_fit.h"
#include "lib/job/report_cells.h"
#include "lib/job/report_pack.h"

namespace relibra {
namespace {

using Json = nlohmann::ordered_json;

/// Ratios are kept in ten-thousandths; 0 where a group has no load.
std::int64_t ten_thousandths(double ratio) {
  return std::llround(ratio * 1e4);
}

/// What a cell would have at best, as a skew: the bound that `over` is measured by.
double bound_skew(double skew, double over) {
  return over > 0 ? skew / over : 0;
}

/// (M, L, D) each. A bound is unknown (null) where no sample knows it.
Json ratios_json(const PlanHeader& h, const std::vector<GroupSample>& samples) {
  const auto pack = [&](auto ratio) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(h.num_cells() * h.topology.ep_groups));
    for (const GroupSample& s : samples)
      values[static_cast<std::size_t>(s.cell * h.topology.ep_groups + s.group)] = ten_thousandths(ratio(s));
    return pack_integers(values);
  };
  const bool recounted = std::any_of(samples.begin(), samples.end(),
                                     [](const GroupSample& s) { return s.over_replica_bound > 0; });
  const auto replica_bound = [](const GroupSample& s) {
    return bound_skew(s.after.skew, s.over_replica_bound);
  };
  return {{"before", pack([](const GroupSample& s) { return s.before.skew; })},
          {"after", pack([](const GroupSample& s) { return s.after.skew; })},
          {"node_before", pack([](const GroupSample& s) { return s.before.node_skew; })},
          {"node_after", pack([](const GroupSample& s) { return s.after.node_skew; })},
          {"mean_bound",
           pack([](const GroupSample& s) { return bound_skew(s.after.skew, s.after.over_mean_bound); })},
          {"node_bound",
           pack([](const GroupSample& s) { return bound_skew(s.after.skew, s.after.over_node_bound); })},
          {"replica_bound", recounted ? pack(replica_bound) : Json(nullptr)}};
}

/// (M, L) each.
Json traffic_json(const PlanHeader& h, const std::vector<CellSample>& samples) {
  std::vector<std::int64_t> tables[4];
  for (auto& table : tables) table.resize(static_cast<std::size_t>(h.num_cells()));
  for (const CellSample& s : samples) {
    const auto at = static_cast<std::size_t>(s.cell);
    tables[0][at] = s.before.pairs, tables[1][at] = s.after.pairs;
    tables[2][at] = s.before.busiest, tables[3][at] = s.after.busiest;
  }
  return {{"pairs_before", pack_integers(tables[0])},
          {"pairs_after", pack_integers(tables[1])},
          {"busiest_before", pack_integers(tables[2])},
          {"busiest_after", pack_integers(tables[3])}};
}

Json homes_json(const Placement& placement) {
  std::vector<std::int64_t> homes;
  for (LayerId l : all<LayerId>(placement.layers()))
    for (EpRankId home : placement.layer(l)) homes.push_back(home.value());
  return pack_integers(homes);
}

Json document_of(const Plan& plan, const std::string& name, bool recounted, const ReportTables& tables,
                 const PlanSamples& samples) {
  const PlanHeader& h = plan.header;
  Json json = {{"name", name},
               {"recounted", recounted},
               {"plan", header_json(h)},
               {"layers", h.layers},
               {"sequences", plan.sequences()},
               {"overall", summary_json(plan, samples, {})},
               {"by_layer", Json::array()},
               {"skew", ratios_json(h, samples.groups)},
               {"loads", {{"before", pack_integers(tables.before)}, {"after", pack_integers(tables.after)}}},
               {"home", homes_json(plan.placement)},
               {"previous", homes_json(plan.previous)},
               {"expert_copies", pack_integers(tables.expert_copies)},
               {"copy_routes", pack_integers(tables.copy_routes)},
               {"expert_tokens", recounted ? pack_integers(tables.expert_tokens) : Json(nullptr)},
               {"rows", recounted ? pack_integers(tables.rows) : Json(nullptr)},
               {"traffic", recounted ? traffic_json(h, samples.cells) : Json(nullptr)}};
  for (LayerId l : all<LayerId>(h.num_layers()))
    json["by_layer"].push_back(summary_json(plan, samples, {}, l));
  return json;
}

/// Collective: the text of every micro-batch on rank 0.
std::vector<std::string> gather_detail(const Comm& comm, const PlanHeader& h,
                                       const std::vector<MicroBatchDetail>& mine) {
  Json list = Json::array();
  for (const MicroBatchDetail& detail : mine) list.push_back({detail.micro_batch, detail.text});
  std::vector<std::vector<std::uint8_t>> send(static_cast<std::size_t>(comm.size()));
  send[0] = Json::to_cbor(list);
  const auto received = comm.exchange(send);
  std::vector<std::string> texts;
  if (!comm.root()) return texts;
  texts.resize(static_cast<std::size_t>(h.num_micro_batches));
  for (const auto& from : received)
    for (const Json& detail : Json::from_cbor(from))
      texts[detail[0].get<std::size_t>()] = detail[1].get<std::string>();
  return texts;
}

std::vector<double> worst_of(const PlanHeader& h, const std::vector<GroupSample>& samples) {
  std::vector<double> worst(static_cast<std::size_t>(h.num_micro_batches));
  for (const GroupSample& s : samples) {
    double& of = worst[static_cast<std::size_t>(s.cell / h.num_layers())];
    of = std::max(of, s.after.skew);
  }
  return worst;
}

/// Collective.
void collect(const Comm& comm, const PlanView& view, const std::string& name, RoutingSource* source,
             const RecountOptions& options, ReportCells& cells) {
  if (!source) {
    for_each_micro_batch(comm, view, [&](const PlanCells& of) { cells.tables_of(of); });
    return;
  }
  agreed(comm, [&] { require_fit(source->dump(), view.plan); });
  const std::string digest = recount(comm, *source, view, cells, options).digest;
  agreed(comm, [&] { require_digest(name, view.plan, digest); });
}

/// A micro-batch that may keep its detail.
struct Candidate {
  double worst;
  std::size_t plan, micro_batch;
};

/// By worst skew, the largest first; equal ones in order.
std::vector<Candidate> candidates_of(const std::vector<ReportedPlan>& plans) {
  std::vector<Candidate> candidates;
  for (std::size_t p = 0; p < plans.size(); ++p)
    for (std::size_t m = 0; m < plans[p].detail.size(); ++m) candidates.push_back({plans[p].worst[m], p, m});
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.worst > b.worst; });
  return candidates;
}

std::string escaped(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (char letter : json) {
    if (letter == '<')
      text += "\\u003c";  // only inside strings of JSON; it ends no element and opens no comment
    else
      text += letter;
  }
  return text;
}

}  // namespace

ReportedPlan report_plan(const Comm& comm, const PlanView& view, const std::string& name,
                         RoutingSource* source, const RecountOptions& options) {
  ReportCells cells(view.plan);
  collect(comm, view, name, source, options, cells);
  cells.tables.gather(comm);
  const PlanSamples samples = gather_samples(comm, cells.samples);
  ReportedPlan reported;
  reported.detail = gather_detail(comm, view.plan.header, cells.detail);
  agreed(comm, [&] {
    if (!comm.root()) return;
    reported.document = document_of(view.plan, name, source != nullptr, cells.tables, samples);
    reported.worst = worst_of(view.plan.header, samples.groups);
  });
  return reported;
}

ReportText report_text(const std::vector<ReportedPlan>& plans, const ReportExtras& extras,
                       std::int64_t limit) {
  Json json = {{"format", "relibra.report"},
               {"version", 1},
               {"tool", std::string("relibra ") + RELIBRA_VERSION},
               {"plans", Json::array()},
               {"compare", extras.compare},
               {"trace", extras.trace}};
  for (const ReportedPlan& plan : plans) {
    json["plans"].push_back(plan.document);
    json["plans"].back()["detail"] = Json(plan.detail.size(), nullptr);
  }
  const auto write = [](const Json& document) {
    return escaped(document.dump(-1, ' ', false, Json::error_handler_t::replace));
  };
  auto room = limit - static_cast<std::int64_t>(write(json).size());
  ReportText text;
  for (const Candidate& c : candidates_of(plans)) {
    const std::string& detail = plans[c.plan].detail[c.micro_batch];
    room -= static_cast<std::int64_t>(detail.size());  // a few bytes more: it replaces "null"
    if (room < 0)
      ++text.left_out;
    else
      json["plans"][c.plan]["detail"][c.micro_batch] = Json::parse(detail);
  }
  text.json = write(json);
  return text;
}

}  // namespace relibra
