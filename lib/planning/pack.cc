#include "lib/planning/pack.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "lib/base/error.h"
#include "lib/planning/deal.h"

namespace relibra {
namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Micro-batches that the dump or the options fix, or 0 where a token budget decides.
int fixed_micro_batches(const RoutingDump& dump, const PackOptions& options) {
  const auto& given = dump.sequences.micro_batch;
  int fixed = dump.header.num_micro_batches.value_or(0);
  if (!given.empty()) fixed = std::max(fixed, 1 + *std::max_element(given.begin(), given.end()));
  if (fixed == 0 && options.micro_batches == 0 && options.tokens_per_micro_batch == 0)
    throw_usage(
        {.where = "--micro-batches",
         .expected = "a number of micro-batches or --tokens-per-micro-batch, since the dump fixes neither",
         .found = "neither"});
  if (options.micro_batches > 0 && options.tokens_per_micro_batch > 0)
    throw_usage(
        {.where = "--micro-batches", .expected = "either it or --tokens-per-micro-batch", .found = "both"});
  if (fixed > 0 && options.tokens_per_micro_batch > 0)
    throw_usage({.where = "--tokens-per-micro-batch",
                 .expected = "a dump that leaves the number of micro-batches open",
                 .found = "one with " + std::to_string(fixed),
                 .advice = "leave the option out"});
  if (fixed > 0 && options.micro_batches > 0 && options.micro_batches != fixed)
    throw_usage({.where = "--micro-batches",
                 .expected = std::to_string(fixed) + ", as the dump has",
                 .found = std::to_string(options.micro_batches),
                 .advice = "leave the option out"});
  const int count = fixed > 0 ? fixed : options.micro_batches;
  if (count % dump.header.optimizer_steps != 0)
    throw_usage({.where = "--micro-batches",
                 .expected = "a multiple of the dump's " + std::to_string(dump.header.optimizer_steps) +
                             " optimizer steps",
                 .found = std::to_string(count)});
  return count;
}

/// Optimizer step of every sequence: prompt groups whole, tokens even.
std::vector<std::int32_t> deal_to_steps(const Sequences& sequences, int steps) {
  std::vector<std::int32_t> unit(at(sequences.size()));
  std::iota(unit.begin(), unit.end(), 0);
  if (!sequences.group.empty()) {
    std::map<std::int32_t, std::int32_t> number;
    for (std::size_t s = 0; s < unit.size(); ++s)
      unit[s] =
          number.try_emplace(sequences.group[s], static_cast<std::int32_t>(number.size())).first->second;
  }
  std::vector<std::int64_t> tokens(unit.size());
  for (std::size_t s = 0; s < unit.size(); ++s) tokens[at(unit[s])] += sequences.num_tokens[s];
  const auto step_of_unit = deal_to_lightest(tokens, steps);
  for (auto& u : unit) u = step_of_unit[at(u)];
  return unit;
}

/// Sequences of one optimizer step that go to the same places: all of them where source ranks are open, those
/// of one rank where they are fixed. They fill shares first_share .. first_share+width-1 of every
/// micro-batch.
struct Pool {
  std::vector<std::int32_t> members = {};
  std::vector<std::int64_t> lengths = {};
  int width = 1;
  int first_share = 0;
};

std::vector<Pool> pools_of_step(const Sequences& sequences, std::span<const std::int32_t> step_of, int step,
                                int world) {
  const bool open = sequences.source_rank.empty();
  std::vector<Pool> pools;
  for (int first = 0; first < (open ? 1 : world); ++first)
    pools.push_back({.width = open ? world : 1, .first_share = first});
  for (std::size_t s = 0; s < step_of.size(); ++s) {
    if (step_of[s] != step) continue;
    Pool& pool = pools[open ? 0 : at(sequences.source_rank[s])];
    pool.members.push_back(static_cast<std::int32_t>(s));
    pool.lengths.push_back(sequences.num_tokens[s]);
  }
  return pools;
}

/// Micro-batches that a pool needs so that no share is over `budget`.
int needed_micro_batches(const Pool& pool, std::int64_t budget) {
  const auto fit = deal_best_fit(pool.lengths, budget);
  const int shares = fit.empty() ? 0 : 1 + *std::max_element(fit.begin(), fit.end());
  return (shares + pool.width - 1) / pool.width;
}

/// The least number of micro-batches a step for which every pool was found to keep to the budget.
int least_micro_batches(std::span<const std::vector<Pool>> steps, std::int64_t budget) {
  int each = 1;
  for (const auto& pools : steps)
    for (const Pool& pool : pools) each = std::max(each, needed_micro_batches(pool, budget));
  const auto suffices = [&](int count) {
    for (const auto& pools : steps)
      for (const Pool& pool : pools)
        if (!deal_within(pool.lengths, count * pool.width, budget)) return false;
    return true;
  };
  while (each > 1 && suffices(each - 1)) --each;
  return each;
}

/// Shares of the pool and the micro-batches they make, from the largest down, `width` shares each. `first`
/// and `count` are the micro-batches of the optimizer step.
void place_pool(const Pool& pool, int first, int count, std::int64_t budget, Packing& packing) {
  const int shares = count * pool.width;
  const auto share_of =
      budget > 0 ? deal_within(pool.lengths, shares, budget).value() : deal_to_lightest(pool.lengths, shares);
  std::vector<std::int64_t> load(at(shares));
  for (std::size_t i = 0; i < share_of.size(); ++i) load[at(share_of[i])] += pool.lengths[i];
  const auto order = longest_first(load);
  std::vector<std::int32_t> place(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) place[at(order[k])] = static_cast<std::int32_t>(k);
  for (std::size_t i = 0; i < share_of.size(); ++i) {
    const std::int32_t k = place[at(share_of[i])];
    packing.micro_batch[at(pool.members[i])] = first + k / pool.width;
    packing.share[at(pool.members[i])] = pool.first_share + k % pool.width;
  }
}

/// Shares where the dump fixes the micro-batches.
void fill_shares(const Sequences& sequences, int world, Packing& packing) {
  packing.share.resize(packing.micro_batch.size());
  std::vector<Pool> pools(at(packing.micro_batches), Pool{.width = world});
  for (std::size_t s = 0; s < packing.micro_batch.size(); ++s) {
    Pool& pool = pools[at(packing.micro_batch[s])];
    pool.members.push_back(static_cast<std::int32_t>(s));
    pool.lengths.push_back(sequences.num_tokens[s]);
  }
  for (int m = 0; m < packing.micro_batches; ++m) place_pool(pools[at(m)], m, 1, 0, packing);
}

}  // namespace

Packing form_micro_batches(const RoutingDump& dump, const Topology& topology, const PackOptions& options) {
  const Sequences& sequences = dump.sequences;
  const int fixed = fixed_micro_batches(dump, options), steps = dump.header.optimizer_steps;
  Packing packing{
      .micro_batches = fixed, .micro_batch = sequences.micro_batch, .share = sequences.source_rank};
  if (!packing.micro_batch.empty()) {
    if (packing.share.empty()) fill_shares(sequences, topology.world(), packing);
    return packing;
  }
  const auto step_of = deal_to_steps(sequences, steps);
  std::vector<std::vector<Pool>> pools;
  for (int t = 0; t < steps; ++t) pools.push_back(pools_of_step(sequences, step_of, t, topology.world()));
  const std::int64_t budget = fixed > 0 ? 0 : options.tokens_per_micro_batch;
  const int each = fixed > 0 ? fixed / steps : least_micro_batches(pools, budget);
  packing.micro_batches = each * steps;
  packing.micro_batch.resize(step_of.size());
  packing.share.resize(step_of.size());
  for (int t = 0; t < steps; ++t)
    for (const Pool& pool : pools[at(t)]) place_pool(pool, t * each, each, budget, packing);
  return packing;
}

}  // namespace relibra
