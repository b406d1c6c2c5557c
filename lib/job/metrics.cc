#include "lib/job/metrics.h"

#include <algorithm>
#include <tuple>

#include "lib/comm/agree.h"
#include "lib/planning/replicate.h"

namespace relibra {
namespace {

using Json = nlohmann::ordered_json;

class Sampler final : public RecountVisitor {
 public:
  explicit Sampler(const Plan& plan) : plan_(plan) {}
  void bin(const PlanCells&, const BinRecount&) override {}
  void micro_batch(const PlanCells& cells, MicroBatchRecount& recount) override {
    sample_recount(plan_, cells, recount, samples);
  }
  PlanSamples samples;

 private:
  const Plan& plan_;
};

Json side_json(const SideSummary& side) {
  Json json = {{"skew", statistics_json(side.skew)},
               {"node_skew", statistics_json(side.node_skew)},
               {"over_mean_bound", statistics_json(side.over_mean_bound)},
               {"over_node_bound", statistics_json(side.over_node_bound)}};
  const bool measured = side.pairs_busiest.count > 0;
  json["cross_node_pairs"] = measured ? Json(side.cross_node_pairs) : Json(nullptr);
  json["pairs_busiest"] = statistics_json(side.pairs_busiest);
  return json;
}

}  // namespace

std::int64_t placement_bound(const PlanHeader& header, std::span<const EpRankId> home,
                             std::span<const std::int64_t> expert_tokens) {
  const Topology& t = header.topology;
  const int width = header.replica_domain == ReplicaDomain::group ? t.ep_size : t.domain_size();
  std::int64_t bound = 0;
  for (int domain = 0; domain < t.ep_size / width; ++domain) {
    std::vector<std::int32_t> ranks;
    std::vector<std::int64_t> load;
    for (std::size_t e = 0; e < home.size(); ++e) {
      if (home[e].value() / width != domain) continue;
      ranks.push_back(home[e].value() % width);
      load.push_back(expert_tokens[e]);
    }
    bound =
        std::max(bound, replica_bound({.ranks = width, .home = ranks, .load = load}, header.replica_slots));
  }
  return bound;
}

void sample_recount(const Plan& plan, const PlanCells& cells, MicroBatchRecount& recount, PlanSamples& out) {
  using Side = MicroBatchRecount::Side;
  const std::size_t groups = out.groups.size(), first_cell = out.cells.size();
  sample_cells(plan, cells, recount.rank_tokens(Side::before), recount.rank_tokens(Side::after), out);
  const Topology& t = plan.header.topology;
  const int layers = plan.header.num_layers();
  for (std::size_t i = groups; i < out.groups.size(); ++i) {
    GroupSample& sample = out.groups[i];
    const LayerId l(sample.cell % layers);
    const auto loads =
        recount.rank_tokens(Side::after, l)
            .subspan(static_cast<std::size_t>(sample.group * t.ep_size), static_cast<std::size_t>(t.ep_size));
    const std::int64_t bound = placement_bound(plan.header, plan.placement.layer(l),
                                               recount.expert_tokens(l, GroupId(sample.group)));
    sample.over_replica_bound =
        static_cast<double>(*std::max_element(loads.begin(), loads.end())) / static_cast<double>(bound);
  }
  for (std::size_t i = first_cell; i < out.cells.size(); ++i) {
    CellSample& sample = out.cells[i];
    const LayerId l(sample.cell % layers);
    sample.rows = recount.rows();
    sample.before = count_pairs(recount.sent(Side::before, l), recount.received(Side::before, l));
    sample.after = count_pairs(recount.sent(Side::after, l), recount.received(Side::after, l));
  }
}

PlanSamples gather_samples(const Comm& comm, const PlanSamples& mine) {
  PlanSamples joined{.groups = comm.gather_all(std::span(mine.groups)),
                     .cells = comm.gather_all(std::span(mine.cells))};
  std::sort(joined.groups.begin(), joined.groups.end(), [](const GroupSample& a, const GroupSample& b) {
    return std::tie(a.cell, a.group) < std::tie(b.cell, b.group);
  });
  std::sort(joined.cells.begin(), joined.cells.end(),
            [](const CellSample& a, const CellSample& b) { return a.cell < b.cell; });
  return joined;
}

void for_each_micro_batch(const Comm& comm, const PlanView& view,
                          const std::function<void(const PlanCells&)>& take) {
  const std::int64_t layers = view.plan.header.num_layers();
  const Range mine = share_of(view.plan.header.num_micro_batches, comm.rank(), comm.size());
  for (std::int64_t round = 0; round < comm.max(mine.size()); ++round) {
    const std::int64_t m = std::min(mine.first + round, mine.last);
    const Range wanted{m * layers, std::min(m + 1, mine.last) * layers};
    const PlanCells cells = view.read(wanted, false);
    agreed(comm, [&] {
      if (!wanted.empty()) take(cells);
    });
  }
}

PlanSamples measure_tables(const Comm& comm, const PlanView& view) {
  PlanSamples samples;
  for_each_micro_batch(comm, view, [&](const PlanCells& cells) {
    sample_cells(view.plan, cells, cells.rank_tokens_static, cells.rank_tokens, samples);
  });
  return gather_samples(comm, samples);
}

PlanSamples measure_plan(const Comm& comm, RoutingSource& source, const PlanView& view,
                         const RecountOptions& options) {
  Sampler sampler(view.plan);
  recount(comm, source, view, sampler, options);
  return gather_samples(comm, sampler.samples);
}

Json statistics_json(const Statistics& s) {
  if (s.count == 0) return nullptr;
  return {{"mean", s.mean}, {"p50", s.p50}, {"p99", s.p99}, {"max", s.max}};
}

Json summary_json(const Plan& plan, const PlanSamples& samples, const ExpertBytes& bytes,
                  std::optional<LayerId> layer) {
  const PlanSummary s = summarise(plan.header, samples, layer);
  Json json = {{"before", side_json(s.before)}, {"after", side_json(s.after)}};
  json["after"]["over_replica_bound"] = statistics_json(s.over_replica_bound);
  json["copies"] = statistics_json(s.copies);
  json["copies"]["total"] = s.copies_total;
  json["fan_out"] = statistics_json(s.fan_out);
  const MoveMeasures moves = measure_moves(plan, bytes, layer);
  const auto known = [&](std::int64_t value) { return bytes.weights > 0 ? Json(value) : Json(nullptr); };
  json["moves"] = {{"experts", moves.experts},
                   {"weight_bytes", known(moves.weight_bytes)},
                   {"optimizer_bytes", known(moves.optimizer_bytes)}};
  return json;
}

Json header_json(const PlanHeader& h) {
  return {{"step", h.step},
          {"policy", h.policy},
          {"seed", h.seed},
          {"tool", h.tool},
          {"num_experts", h.num_experts},
          {"num_layers", h.num_layers()},
          {"top_k", h.top_k},
          {"num_micro_batches", h.num_micro_batches},
          {"ep_size", h.topology.ep_size},
          {"num_ep_groups", h.topology.ep_groups},
          {"gpus_per_node", h.topology.gpus_per_node},
          {"slots_per_rank", h.slots_per_rank},
          {"replica_slots", h.replica_slots},
          {"physical_slots", h.physical_slots},
          {"replica_domain", h.replica_domain == ReplicaDomain::node ? "node" : "group"},
          {"dump_digest", h.dump_digest},
          {"search_moves", h.search_moves},
          {"folded_copies", h.folded_copies}};
}

Json metrics_json(const Plan& plan, const PlanSamples& samples, const ExpertBytes& bytes,
                  const RunFigures& run) {
  Json json = {{"format", "relibra.metrics"},
               {"version", 1},
               {"plan", header_json(plan.header)},
               {"overall", summary_json(plan, samples, bytes)},
               {"layers", Json::array()}};
  for (LayerId l : all<LayerId>(plan.header.num_layers())) {
    Json layer = {{"layer", plan.header.layers[l.index()]}};
    layer.update(summary_json(plan, samples, bytes, l));
    json["layers"].push_back(std::move(layer));
  }
  Json seconds = Json::object();
  double total = 0;
  for (const PhaseTime& phase : run.phases) {
    seconds[phase.phase] = phase.seconds;
    total += phase.seconds;
  }
  seconds["total"] = total;
  json["run"] = {{"ranks", run.ranks},
                 {"threads", run.threads},
                 {"bytes_read", run.bytes_read},
                 {"seconds", std::move(seconds)}};
  return json;
}

}  // namespace relibra
