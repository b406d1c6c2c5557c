#include "lib/job/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/base/error.h"
#include "lib/comm/agree.h"
#include "lib/cost/prices.h"
#include "lib/job/compare_work.h"
#include "lib/job/fetch_cells.h"
#include "lib/policy/policy.h"

namespace relibra {
namespace {

constexpr int kNoSlots = std::numeric_limits<int>::max();
constexpr std::string_view kStatic = "static", kBalanced = "balanced";

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

/// In the order of the table, `static` first. The control has no plan.
std::vector<std::string> planned_policies(const std::vector<std::string>& wanted) {
  std::vector<std::string> names{std::string(kStatic)};
  std::string known(kBalanced);
  auto found = static_cast<std::size_t>(std::count(wanted.begin(), wanted.end(), kBalanced));
  for (const PolicyEntry& entry : policies()) {
    if (entry.name == kBalanced) continue;
    known += ", " + std::string(entry.name);
    const auto times = static_cast<std::size_t>(std::count(wanted.begin(), wanted.end(), entry.name));
    found += times;
    if (entry.name != kStatic && (wanted.empty() || times > 0)) names.emplace_back(entry.name);
  }
  if (found != wanted.size())
    throw_usage({.where = "--policies", .expected = "of " + known, .found = joined(wanted)});
  return names;
}

/// Prices are those of the cluster. Where a token of the dump stands for several, given prices and floors in
/// tokens shrink with it.
PlanOptions planning_of(const CompareOptions& options, const Cluster& cluster, int top_k) {
  const double factor = options.time.token_factor;
  PlanOptions plan = options.plan;
  const Prices prices = prices_of(cluster, options.model, options.time, plan.topology, top_k);
  plan.transfers = false;
  plan.priced_start = true;
  plan.move_cost = plan.move_cost ? *plan.move_cost / factor : prices.move;
  plan.details.push_price = plan.details.push_price ? *plan.details.push_price / factor : prices.push;
  plan.details.far_price = plan.details.far_price.value_or(prices.far);
  plan.details.push_shadow = plan.details.push_shadow.value_or(prices.shadow);
  plan.details.ultraep_floor =
      std::max<std::int64_t>(1, std::llround(double(plan.details.ultraep_floor) / factor));
  return plan;
}

bool is_priced(const std::string& policy) {
  return std::any_of(policies().begin(), policies().end(),
                     [&](const PolicyEntry& entry) { return entry.name == policy && entry.priced; });
}

/// One shape on every cluster.
class Comparer {
 public:
  Comparer(const Comm& comm, RoutingSource& source, const RoutingDump& dump, const CountedRouting& counted,
           const CompareOptions& options, const Progress& progress)
      : comm_(comm),
        source_(source),
        dump_(dump),
        counted_(counted),
        options_(options),
        progress_(progress) {}

  std::vector<Comparison> run() {
    std::vector<std::string> names;
    agreed(comm_, [&] { names = planned_policies(options_.policies); });
    std::vector<Comparison> comparisons;
    for (std::size_t i = 0; i < options_.clusters.size(); ++i) {
      Comparison on_cluster{
          .cluster = i, .topology = options_.plan.topology, .replica_slots = options_.plan.replica_slots};
      for (std::size_t p = 0; p < names.size(); ++p) {
        const bool planned = i > 0 && !is_priced(names[p]);
        on_cluster.policies.push_back(planned ? comparisons.front().policies[p] : result_of(names[p], i));
      }
      on_cluster.policies.push_back(control(on_cluster.at_static()));
      for (PolicyResult& result : on_cluster.policies)
        if (result.refusal.empty())
          result.time = step_times(options_.clusters[i], options_.model, options_.time, result.work);
      comparisons.push_back(std::move(on_cluster));
    }
    return comparisons;
  }

 private:
  /// A shape that the policy can't plan is no reason to stop, unless it is `static` that can't.
  PolicyResult result_of(const std::string& name, std::size_t cluster) {
    try {
      return plan_and_measure(name, options_.clusters[cluster]);
    } catch (const Error& error) {
      if (error.fault() != Fault::usage || !error.agreed() || name == kStatic) throw;
      return {.policy = name, .refusal = error.what()};
    }
  }

  PolicyResult plan_and_measure(const std::string& name, const Cluster& cluster) {
    PlanOptions plan_options = planning_of(options_, cluster, dump_.header.top_k);
    plan_options.policy = name;
    const Progress progress = [&](std::string_view phase, double done) {
      progress_(name + " for " + cluster.name + ", " + std::string(phase), done);
    };
    const PlanResult planned = plan_step(comm_, dump_, counted_, plan_options,
                                         options_.previous ? &*options_.previous : nullptr, progress);
    const PlanHeader& header = planned.plan.header;
    MeasuredWork measured = measure_work(comm_, source_, view_of(comm_, planned.plan, planned.mine),
                                         {.progress = [&](double done) { progress("measure", done); }});
    PolicyResult result{.policy = name, .header = header};
    result.summary = summarise(header, measured.samples);
    result.moves =
        measure_moves(planned.plan, ExpertBytes::swiglu(options_.model.hidden, options_.model.intermediate));
    result.spare_slots = header.physical_slots - home_slots(header.num_experts, header.topology.ep_size);
    for (const PhaseTime& phase : planned.phases) result.planning_seconds += phase.seconds;
    result.work = std::move(measured.work);
    result.slot_bytes =
        slot_bytes(options_.model, result.spare_slots, header.num_layers(), result.work.resident_copies);
    return result;
  }

  PolicyResult control(const PolicyResult& as_static) const {
    const PlanHeader& header = as_static.header;
    PolicyResult result{.policy = std::string(kBalanced), .header = header};
    result.work = balanced_work(as_static.work, header.num_experts, header.top_k);
    result.summary = summarise(header, samples_of(result.work));
    return result;
  }

  PlanSamples samples_of(const StepWork& work) const {
    PlanSamples samples;
    const Topology& t = work.topology;
    for (std::size_t i = 0; i < work.groups.size(); ++i) {
      const GroupWork& group = work.groups[i];
      if (const auto loads = measure_loads(t, work.rows_of(i)))
        samples.groups.push_back({.cell = group.cell,
                                  .group = group.group,
                                  .before = *loads,
                                  .after = *loads,
                                  .over_replica_bound = loads->over_mean_bound});
      if (group.group != 0) continue;
      const CrossNodePairs pairs{.pairs = group.pairs * t.nodes(), .busiest = group.pairs};
      samples.cells.push_back({.cell = group.cell, .rows = group.rows, .before = pairs, .after = pairs});
    }
    return samples;
  }

  const Comm& comm_;
  RoutingSource& source_;
  const RoutingDump& dump_;
  const CountedRouting& counted_;
  const CompareOptions& options_;
  const Progress& progress_;
};

int& option_of(PlanOptions& options, const std::string& name) {
  if (name == "ep-size") return options.topology.ep_size;
  if (name == "ep-groups") return options.topology.ep_groups;
  if (name == "gpus-per-node") return options.topology.gpus_per_node;
  if (name == "replica-slots") return options.replica_slots;
  throw_usage({.where = "--sweep",
               .expected = "ep-size, ep-groups, gpus-per-node or replica-slots, then = and values",
               .found = "'" + name + "'"});
}

}  // namespace

SweepAxis parse_sweep_axis(const std::string& text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  SweepAxis axis{.option = text.substr(0, equals)};
  PlanOptions any;
  option_of(any, axis.option);
  const int least = axis.option == "replica-slots" ? 0 : 1;
  for (std::size_t at = equals + 1; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string value = text.substr(at, end - at);
    if (value.empty() || value.size() > 6 || value.find_first_not_of("0123456789") != std::string::npos ||
        std::stoi(value) < least)
      throw_usage({.where = "--sweep " + axis.option,
                   .expected = "numbers from " + std::to_string(least) + ", as in 8,16,32",
                   .found = "'" + value + "'"});
    axis.values.push_back(std::stoi(value));
    at = end + 1;
  }
  if (axis.values.empty())
    throw_usage({.where = "--sweep", .expected = "OPTION=VALUE,...", .found = "'" + text + "'"});
  return axis;
}

std::vector<Comparison> compare_policies(const Comm& comm, RoutingSource& source,
                                         const CountedRouting& counted, const CompareOptions& options,
                                         const std::vector<SweepAxis>& axes, const Progress& progress) {
  std::size_t points = 1;
  for (const SweepAxis& axis : axes) points *= axis.values.size();
  RoutingDump unplaced = source.dump();
  unplaced.sequences.source_rank.clear();
  std::vector<Comparison> comparisons;
  for (std::size_t point = 0; point < points; ++point) {
    CompareOptions at_point = options;
    std::size_t rest = point;
    for (std::size_t a = axes.size(); a-- > 0; rest /= axes[a].values.size())
      option_of(at_point.plan, axes[a].option) = axes[a].values[rest % axes[a].values.size()];
    const bool same_ranks = at_point.plan.topology.world() == options.plan.topology.world();
    const RoutingDump& dump = same_ranks ? source.dump() : unplaced;
    for (Comparison& comparison : Comparer(comm, source, dump, counted, at_point, progress).run())
      comparisons.push_back(std::move(comparison));
  }
  return comparisons;
}

std::vector<EnoughSlots> enough_slots(const std::vector<Comparison>& sweep, double within) {
  std::vector<EnoughSlots> found;
  const auto visit = [&](auto&& with) {
    for (const Comparison& c : sweep)
      for (const PolicyResult& p : c.policies) {
        if (!p.refusal.empty()) continue;
        auto entry = std::find_if(found.begin(), found.end(), [&](const EnoughSlots& e) {
          return e.cluster == c.cluster && e.topology == c.topology && e.policy == p.policy;
        });
        const double seconds = p.time.total();
        if (entry == found.end())
          entry = found.insert(found.end(), {c.cluster, c.topology, p.policy, kNoSlots, seconds, seconds});
        with(*entry, c.replica_slots, seconds);
      }
  };
  visit([](EnoughSlots& e, int, double seconds) { e.fastest = std::min(e.fastest, seconds); });
  visit([&](EnoughSlots& e, int slots, double seconds) {
    if (seconds > e.fastest * (1 + within) || slots >= e.slots) return;
    e.slots = slots;
    e.seconds = seconds;
  });
  return found;
}

}  // namespace relibra
