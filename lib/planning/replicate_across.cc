#include "lib/planning/replicate_across.h"

#include <algorithm>
#include <numeric>

#include "lib/planning/copy_split.h"
#include "lib/planning/quota.h"

namespace relibra {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// What assignments cost that leave their token's node, where sources are spread evenly.
double far_cost(const DomainLoad& group, std::span<const Quota> quotas, const AcrossOptions& options) {
  if (options.far_price == 0) return 0;
  const int nodes = group.ranks / options.node_ranks;
  thread_local std::vector<std::int64_t> held;  // by node, of one expert
  held.assign(at(nodes), 0);
  double far = 0;
  std::size_t next = 0;
  for (std::size_t e = 0; e < group.load.size(); ++e) {
    const auto home = at(group.home[e] / options.node_ranks);
    const double share = static_cast<double>(group.load[e]) / nodes;
    const std::size_t first = next;
    held[home] = group.load[e];
    for (; next < quotas.size() && static_cast<std::size_t>(quotas[next].expert) == e; ++next) {
      held[home] -= quotas[next].tokens;
      held[at(quotas[next].rank / options.node_ranks)] += quotas[next].tokens;
    }
    double near = 0;
    const auto take = [&](std::size_t node) {
      near += std::min(static_cast<double>(held[node]), share);
      held[node] = 0;
    };
    take(home);
    for (std::size_t q = first; q < next; ++q) take(at(quotas[q].rank / options.node_ranks));
    far += static_cast<double>(group.load[e]) - near;
  }
  return options.far_price * far / group.ranks;
}

/// Plans of one group, of which the cheapest is kept.
class Cheapest {
 public:
  Cheapest(const DomainLoad& group, const AcrossOptions& options) : group_(group), options_(options) {}

  void offer(std::int64_t max_load, std::vector<Quota> quotas) {
    const double cost = cost_across(group_, max_load, quotas, options_);
    if (taken_ && cost >= cost_) return;
    taken_ = true;
    cost_ = cost;
    wait_ = cost - far_cost(group_, quotas, options_);
    plan_.max_load = max_load;
    plan_.quotas = std::move(quotas);
  }
  /// Its cost without that of far assignments: the slowest rank and its pushes.
  double wait() const { return wait_; }
  DomainPlan& plan() { return plan_; }

 private:
  const DomainLoad& group_;
  const AcrossOptions& options_;
  bool taken_ = false;
  double cost_ = 0, wait_ = 0;
  DomainPlan plan_;
};

std::vector<Quota> used_quotas(const CopySplit& split) {
  std::vector<Quota> quotas = split.quotas();
  std::erase_if(quotas, [](const Quota& q) { return q.tokens == 0; });
  return quotas;
}

/// A copy of the slowest rank's largest expert on the least loaded rank of another node that has a slot for
/// it; false where there is none.
bool add_across(const DomainLoad& group, const AcrossOptions& options, CopySplit& split) {
  int from = 0, expert = -1, to = -1;
  for (int r = 1; r < group.ranks; ++r)
    if (split.load(r) > split.load(from)) from = r;
  if (options.copies.max_fan_out > 0 && split.copies_of_home(from) >= options.copies.max_fan_out)
    return false;
  for (std::size_t e = 0; e < group.home.size(); ++e)
    if (group.home[e] == from && (expert < 0 || split.at_home(static_cast<int>(e)) > split.at_home(expert)))
      expert = static_cast<int>(e);
  if (expert < 0 || split.at_home(expert) == 0) return false;
  for (int r = 0; r < group.ranks; ++r)
    if (r / options.node_ranks != from / options.node_ranks && split.copies_on(r) < options.copies.slots &&
        !split.holds(expert, r) && (to < 0 || split.load(r) < split.load(to)))
      to = r;
  if (to < 0) return false;
  split.add(expert, to, 0);
  return true;
}

double mean_load(const DomainLoad& group) {
  const auto total = std::accumulate(group.load.begin(), group.load.end(), std::int64_t{0});
  return static_cast<double>(total) / group.ranks;
}

/// Of copies to other nodes, the busiest rank's, in assignments.
double push_cost(int copies, double mean, const AcrossOptions& options) {
  return std::max(0.0, options.push_price * copies - options.push_shadow * mean);
}

/// Copies of a home that cost nothing, however many nodes they cross.
int hidden_copies(double mean, const AcrossOptions& options) {
  const double most = options.push_price > 0 ? options.push_shadow * mean / options.push_price : 0;
  return static_cast<int>(std::min(most, 1e6));
}

}  // namespace

double cost_across(const DomainLoad& group, std::int64_t max_load, std::span<const Quota> quotas,
                   const AcrossOptions& options) {
  std::vector<int> sent(at(group.ranks), 0), received(at(group.ranks), 0);
  for (const Quota& q : quotas) {
    const std::int32_t home = group.home[at(q.expert)];
    if (q.rank / options.node_ranks == home / options.node_ranks) continue;
    ++sent[at(home)];
    ++received[at(q.rank)];
  }
  const int most = std::max(*std::max_element(sent.begin(), sent.end()),
                            *std::max_element(received.begin(), received.end()));
  return static_cast<double>(max_load) + push_cost(most, mean_load(group), options) +
         far_cost(group, quotas, options);
}

DomainPlan replicate_across(const DomainLoad& group, std::span<const Quota> in_nodes,
                            const AcrossOptions& options) {
  thread_local CopySplit split;
  split.reset(group);
  for (const Quota& q : in_nodes) split.add(q.expert, q.rank, q.tokens);
  Cheapest cheapest(group, options);
  cheapest.plan().bound = (split.total() + group.ranks - 1) / group.ranks;
  cheapest.offer(split.max_load(), {in_nodes.begin(), in_nodes.end()});
  const auto mean = static_cast<double>(cheapest.plan().bound);
  const double good = mean * (1 + options.copies.tolerance);
  // Even a cell that is balanced perfectly by one copy would have to pay for it.
  const auto may_gain = [&] { return cheapest.wait() > std::max(good, mean + push_cost(1, mean, options)); };

  const int nodes = group.ranks / options.node_ranks, limit = options.copies.max_fan_out;
  if (options.far_price > 0 && limit == 0) {
    DomainPlan quotas = plan_quotas(group, {options.copies.slots, options.quota_floor});
    cheapest.offer(quotas.max_load, std::move(quotas.quotas));
  }
  for (int tries = 0; tries < 2 * nodes && may_gain() && add_across(group, options, split); ++tries) {
    const std::int64_t max_load = split.tighten();
    cheapest.offer(max_load, used_quotas(split));
  }
  const auto offer_anywhere = [&](int max_fan_out) {
    ReplicateOptions copies = options.copies;
    copies.max_fan_out = max_fan_out;
    DomainPlan anywhere = replicate(group, copies);
    cheapest.offer(anywhere.max_load, std::move(anywhere.quotas));
  };
  const int hidden = hidden_copies(mean, options);
  if (hidden > 0 && (limit == 0 || hidden < limit) && may_gain()) offer_anywhere(hidden);
  if (may_gain()) offer_anywhere(limit);
  return cheapest.plan();
}

}  // namespace relibra
