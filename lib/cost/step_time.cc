#include "lib/cost/step_time.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace relibra {
namespace {

/// Sent and received by each rank, by link.
class Links {
 public:
  explicit Links(const Topology& topology)
      : topology_(topology), count_(4 * static_cast<std::size_t>(topology.ep_size)) {}

  /// Ranks of the group that starts at global rank `first`.
  void add(int first, EpRankId from, EpRankId to) {
    const bool across =
        topology_.node_of(RankId(first + from.value())) != topology_.node_of(RankId(first + to.value()));
    ++count_[4 * from.index() + 2 * across];
    ++count_[4 * to.index() + 2 * across + 1];
  }

  PushWork busiest() const {
    PushWork most;
    for (std::size_t i = 0; i < count_.size(); i += 4) {
      most.in_node = std::max({most.in_node, count_[i], count_[i + 1]});
      most.across_nodes = std::max({most.across_nodes, count_[i + 2], count_[i + 3]});
    }
    return most;
  }

 private:
  const Topology& topology_;
  std::vector<std::int64_t> count_;
};

double nvlink_rate(const Cluster& c) {
  return c.nvlink * c.nvlink_share;
}
double network_rate(const Cluster& c) {
  return c.network * c.network_share;
}

/// Experts' parameters of `bytes` each over the links of the busiest rank.
double travel(const Cluster& cluster, const LayerModel& model, const PushWork& work, int bytes) {
  const double expert = model.parameters() * bytes;
  const double in_node = work.in_node == 0 ? 0 : double(work.in_node) * expert / nvlink_rate(cluster);
  const double across =
      work.across_nodes == 0 ? 0 : double(work.across_nodes) * expert / network_rate(cluster);
  return std::max(in_node, across);
}

double exchange(const Cluster& cluster, const LayerModel& model, const StepTimeOptions& options,
                const StepWork& work, std::size_t i, int bytes) {
  const Topology& t = work.topology;
  if (t.ep_size == 1) return 0;
  const auto rows = work.rows_of(i);
  const double token = double(model.hidden) * bytes * options.token_factor;
  const double most_rows = double(*std::max_element(rows.begin(), rows.end()));
  const double in_node = most_rows * token / nvlink_rate(cluster);
  const auto pairs = double(work.groups[i].pairs);
  const double across = pairs == 0 ? 0 : pairs * token / (t.domain_size() * network_rate(cluster));
  return cluster.latency + std::max(in_node, across);
}

double attention_forward(const Cluster& cluster, const LayerModel& model, const StepTimeOptions& options,
                         const StepWork& work, std::size_t i) {
  const double tokens = options.token_factor * double(work.groups[i].rows) / work.topology.world();
  return (model.attention_flops + model.shared_experts * model.expert_flops()) * tokens /
         (cluster.flops * cluster.attention_share);
}

double expert_seconds(const Cluster& cluster, const LayerModel& model, double effective_rows) {
  return 3 * model.expert_flops() * effective_rows / (cluster.flops * cluster.gemm_share);
}

/// Copies that stay for the step are pushed and returned once, beside nothing.
double resident_push(const Cluster& cluster, const LayerModel& model, const StepWork& work,
                     std::int32_t group) {
  double seconds = 0;
  for (const GroupWork& g : work.groups)
    if (g.cell < work.layers && g.group == group)
      seconds += travel(cluster, model, g.push, model.weight_bytes) +
                 travel(cluster, model, g.push, model.gradient_bytes);
  return work.optimizer_steps * seconds;
}

/// C(E-n, K) / C(E, K): none of K different experts of E is among n.
double none_of(int experts, int n, int top_k) {
  double share = 1;
  for (int k = 0; k < top_k; ++k) share *= double(std::max(0, experts - n - k)) / double(experts - k);
  return share;
}

}  // namespace

PushWork push_work(const Topology& topology, GroupId group, std::span<const EpRankId> home,
                   std::span<const Copy> copies) {
  Links links(topology);
  for (const Copy& copy : copies)
    if (topology.group_of(copy.rank) == group)
      links.add(group.value() * topology.ep_size, home[copy.expert.index()], topology.ep_rank_of(copy.rank));
  return links.busiest();
}

PushWork move_work(const Topology& topology, std::span<const Move> moves) {
  Links links(topology);
  for (const Move& move : moves) links.add(0, move.from, move.to);
  return links.busiest();
}

CellTimes& CellTimes::operator+=(const CellTimes& other) {
  attention += other.attention;
  dispatch += other.dispatch;
  compute += other.compute;
  combine += other.combine;
  push += other.push;
  return *this;
}

CellTimes cell_times(const Cluster& cluster, const LayerModel& model, const StepTimeOptions& options,
                     const StepWork& work, std::size_t i) {
  CellTimes times;
  const double forward = attention_forward(cluster, model, options, work, i);
  times.attention = 3 * forward;
  const double there = exchange(cluster, model, options, work, i, model.dispatch_bytes);
  const double back = exchange(cluster, model, options, work, i, model.combine_bytes);
  times.dispatch = there + back;
  times.combine = 2 * back;
  double slowest = 0;
  const auto rows = work.rows_of(i);
  const auto experts = work.experts_of(i);
  for (std::size_t p = 0; p < rows.size(); ++p)
    slowest = std::max(slowest, options.token_factor * double(rows[p]) + cluster.gemm_half_rows * experts[p]);
  times.compute = expert_seconds(cluster, model, slowest);
  if (work.resident_copies) return times;
  const double weights = travel(cluster, model, work.groups[i].push, model.weight_bytes);
  const double gradients = travel(cluster, model, work.groups[i].push, model.gradient_bytes);
  times.push = std::max(0.0, weights - options.overlap * forward) +
               std::max(0.0, std::max(weights, gradients) - options.overlap * 2 * forward);
  return times;
}

double mean_compute(const Cluster& cluster, const LayerModel& model, const StepTimeOptions& options,
                    const StepWork& work, std::size_t i) {
  const auto rows = work.rows_of(i);
  const auto experts = work.experts_of(i);
  const auto all_rows = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  const auto all_experts = std::accumulate(experts.begin(), experts.end(), std::int64_t{0});
  const double effective =
      options.token_factor * double(all_rows) + cluster.gemm_half_rows * double(all_experts);
  return expert_seconds(cluster, model, effective / double(rows.size()));
}

StepTimes step_times(const Cluster& cluster, const LayerModel& model, const StepTimeOptions& options,
                     const StepWork& work) {
  const auto groups = static_cast<std::size_t>(work.topology.ep_groups);
  std::vector<StepTimes> of(groups);
  std::vector<double> slowest(groups, -1);
  for (std::size_t i = 0; i < work.groups.size(); ++i) {
    const auto g = static_cast<std::size_t>(work.groups[i].group);
    const CellTimes times = cell_times(cluster, model, options, work, i);
    of[g].cells += times;
    of[g].compute_mean += mean_compute(cluster, model, options, work, i);
    if (times.total() <= slowest[g]) continue;
    slowest[g] = times.total();
    of[g].slowest = i;
  }
  for (std::size_t g = 0; g < groups; ++g) {
    of[g].group = static_cast<std::int32_t>(g);
    if (work.resident_copies) of[g].cells.push = resident_push(cluster, model, work, of[g].group);
    of[g].moves = travel(cluster, model, work.moves, model.moved_bytes);
  }
  return *std::max_element(of.begin(), of.end(), [](const StepTimes& a, const StepTimes& b) {
    return a.cells.total() < b.cells.total();
  });
}

StepWork balanced_work(const StepWork& work, int num_experts, int top_k) {
  StepWork balanced = work;
  balanced.resident_copies = false;
  balanced.moves = {};
  const Topology& t = work.topology;
  const int nodes = t.domains_per_group(), width = t.ep_size;
  const double others = (nodes - 1) * (1 - none_of(num_experts, num_experts / nodes, top_k));
  for (std::size_t i = 0; i < work.groups.size(); ++i) {
    GroupWork& group = balanced.groups[i];
    group.push = {};
    const double tokens_of_node = double(group.rows) / t.ep_groups / nodes;
    group.pairs = std::llround(tokens_of_node * others);
    const auto rows = work.rows_of(i);
    const auto all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    for (int p = 0; p < width; ++p) {
      const std::size_t at = i * static_cast<std::size_t>(width) + static_cast<std::size_t>(p);
      balanced.rank_rows[at] = share_of(all, p, width).size();
      const std::int64_t homes = share_of(num_experts, p, width).size();
      balanced.rank_experts[at] =
          static_cast<std::int32_t>(std::min<std::int64_t>(homes, balanced.rank_rows[at]));
    }
  }
  return balanced;
}

std::int64_t slot_bytes(const LayerModel& model, int slots, int layers, bool resident) {
  const std::int64_t parameters = 3 * model.hidden * model.intermediate;
  const std::int64_t expert = parameters * ((resident ? 1 : 2) * model.weight_bytes + model.gradient_bytes);
  return slots * expert * (resident ? layers : 1);
}

}  // namespace relibra
