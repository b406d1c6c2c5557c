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
  const auto step_of_unit = *deal_to_lightest(tokens, steps);
  for (auto& u : unit) u = step_of_unit[at(u)];
  return unit;
}

/// Sequences of one optimizer step that go to the same places: all of them where source ranks are open, those
/// of one rank where they are fixed. They fill `width` shares of every micro-batch.
struct Pool {
  std::vector<std::int32_t> members;
  std::vector<std::int64_t> lengths;
  int width = 1;
};

std::vector<Pool> pools_of_step(const Sequences& sequences, std::span<const std::int32_t> step_of, int step,
                                int world) {
  const bool open = sequences.source_rank.empty();
  std::vector<Pool> pools(at(open ? 1 : world), Pool{.width = open ? world : 1});
  for (std::size_t s = 0; s < step_of.size(); ++s) {
    if (step_of[s] != step) continue;
    Pool& pool = pools[open ? 0 : at(sequences.source_rank[s])];
    pool.members.push_back(static_cast<std::int32_t>(s));
    pool.lengths.push_back(sequences.num_tokens[s]);
  }
  return pools;
}

/// Shares by descending load, `width` to a micro-batch: ranks of a micro-batch wait for its largest share.
std::vector<std::int32_t> shares_to_micro_batches(const Pool& pool, std::span<const std::int32_t> share_of,
                                                  int shares) {
  std::vector<std::int64_t> load(at(shares));
  for (std::size_t i = 0; i < share_of.size(); ++i) load[at(share_of[i])] += pool.lengths[i];
  const auto order = longest_first(load);
  std::vector<std::int32_t> micro_batch(at(shares));
  for (std::size_t k = 0; k < order.size(); ++k)
    micro_batch[at(order[k])] = static_cast<std::int32_t>(k) / pool.width;
  return micro_batch;
}

/// Micro-batches that a pool needs so that no share is over `budget`.
int needed_micro_batches(const Pool& pool, std::int64_t budget) {
  const auto fit = deal_best_fit(pool.lengths, budget);
  const int shares = fit.empty() ? 0 : 1 + *std::max_element(fit.begin(), fit.end());
  return (shares + pool.width - 1) / pool.width;
}

void fill_micro_batches(const Pool& pool, int count, std::int64_t budget, int first,
                        std::vector<std::int32_t>& micro_batch) {
  const int shares = count * pool.width;
  auto share_of = deal_to_lightest(pool.lengths, shares, budget);
  if (!share_of) share_of = deal_best_fit(pool.lengths, budget);
  const auto of_share = shares_to_micro_batches(pool, *share_of, shares);
  for (std::size_t i = 0; i < pool.members.size(); ++i)
    micro_batch[at(pool.members[i])] = first + of_share[at((*share_of)[i])];
}

}  // namespace

Packing form_micro_batches(const RoutingDump& dump, const Topology& topology, const PackOptions& options) {
  const int fixed = fixed_micro_batches(dump, options), steps = dump.header.optimizer_steps;
  if (!dump.sequences.micro_batch.empty()) return {fixed, dump.sequences.micro_batch};
  const auto step_of = deal_to_steps(dump.sequences, steps);
  std::vector<std::vector<Pool>> pools;
  for (int t = 0; t < steps; ++t)
    pools.push_back(pools_of_step(dump.sequences, step_of, t, topology.world()));
  int each = fixed / steps;
  if (fixed == 0) {
    each = 1;
    for (const auto& step : pools)
      for (const Pool& pool : step)
        each = std::max(each, needed_micro_batches(pool, options.tokens_per_micro_batch));
  }
  Packing packing{each * steps, std::vector<std::int32_t>(step_of.size())};
  const std::int64_t budget = fixed == 0 ? options.tokens_per_micro_batch : -1;
  for (int t = 0; t < steps; ++t)
    for (const Pool& pool : pools[at(t)])
      fill_micro_batches(pool, each, budget, t * each, packing.micro_batch);
  return packing;
}

}  // namespace relibra
