#include "lib/job/plan_places.h"

#include <algorithm>

namespace relibra {
namespace {

void check_source_ranks(const Sequences& sequences, const Topology& topology) {
  for (std::size_t s = 0; s < sequences.source_rank.size(); ++s) {
    const std::int32_t rank = sequences.source_rank[s];
    if (rank >= 0 && rank < topology.world()) continue;
    throw_usage({.where = "--ep-size",
                 .expected = "ranks for every source_rank of the dump",
                 .found = std::to_string(topology.world()) + " ranks (EP size * EP groups), and sequence " +
                          std::to_string(s) + " on source rank " + std::to_string(rank),
                 .advice = "use the EP size and EP groups of the trainer that wrote the dump, or leave "
                           "/sequences/source_rank out"});
  }
}

}  // namespace

SequencePlaces place_before_reordering(const RoutingDump& dump, const PlanOptions& options) {
  check_source_ranks(dump.sequences, options.topology);
  if (options.repack && !dump.sequences.micro_batch.empty())
    throw_usage({.where = "--repack",
                 .expected = "a dump that leaves micro-batches to the planner",
                 .found = "one that fixes the micro-batch of every sequence",
                 .advice = "leave the option out"});
  SequencePlaces places{
      form_micro_batches(dump, options.topology, options.pack), {}, dump.sequences.source_rank};
  places.group = assign_groups(dump, places, options.topology);
  return places;
}

void check_previous(const PreviousPlan& previous, const RoutingHeader& dump, const PlanOptions& options) {
  const auto require = [](bool same, const char* what, const std::string& expected,
                          const std::string& found) {
    if (!same)
      throw_usage({.where = "--previous",
                   .expected = expected + " " + what,
                   .found = found,
                   .advice = "give the plan of the step before, of the same model and EP size"});
  };
  const auto text = [](auto n) { return std::to_string(n); };
  require(previous.ep_size == options.topology.ep_size, "ranks in an EP group (--ep-size)",
          text(options.topology.ep_size), text(previous.ep_size));
  require(previous.num_experts == dump.num_experts, "experts", text(dump.num_experts),
          text(previous.num_experts));
  require(previous.layers.size() == dump.layers.size(), "layers", text(dump.layers.size()),
          text(previous.layers.size()));
  const auto differ = std::mismatch(previous.layers.begin(), previous.layers.end(), dump.layers.begin());
  if (differ.first != previous.layers.end())
    require(false, "as the next routed layer", "model block " + text(*differ.second), text(*differ.first));
}

void check_options(const PlanOptions& options) {
  const auto require = [](bool good, const char* option, const char* expected, double found) {
    if (!good) throw_usage({.where = option, .expected = expected, .found = std::to_string(found)});
  };
  validate(options.topology);
  require(options.replica_slots >= 0, "--replica-slots", "0 or more", options.replica_slots);
  require(options.tolerance >= 0 && options.tolerance <= 10, "--tolerance", "a share of at least 0",
          options.tolerance);
  require(options.max_fan_out >= 0, "--max-fan-out", "0 (no limit) or more", options.max_fan_out);
  require(options.effort >= 0, "--effort", "0 or more", static_cast<double>(options.effort));
  const double push_price = options.details.push_price.value_or(0);
  const double push_shadow = options.details.push_shadow.value_or(0);
  require(push_price >= 0, "--push-price", "0 or more", push_price);
  const double far_price = options.details.far_price.value_or(0);
  require(far_price >= 0, "--far-price", "0 or more", far_price);
  require(push_shadow >= 0, "--push-shadow", "0 or more", push_shadow);
  require(options.move_cost.value_or(0) >= 0, "--move-cost", "0 or more", options.move_cost.value_or(0));
}

}  // namespace relibra
