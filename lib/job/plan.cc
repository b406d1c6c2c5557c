#include "lib/job/plan.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "lib/base/parallel.h"
#include "lib/base/timer.h"
#include "lib/comm/agree.h"
#include "lib/job/plan_budget.h"
#include "lib/job/plan_cells.h"
#include "lib/job/plan_places.h"
#include "lib/planning/repack.h"

namespace relibra {
namespace {

constexpr std::size_t kTimedCells = 4;

template <class Work>
double seconds_of(Work&& work) {
  Timer timer;
  work();
  return timer.seconds();
}

PreviousPlan contiguous_plan(const RoutingHeader& dump, int ep_size) {
  return {.layers = dump.layers,
          .num_experts = dump.num_experts,
          .ep_size = ep_size,
          .slots_per_rank = home_slots(dump.num_experts, ep_size),
          .placement = Placement::contiguous(dump.num_layers(), dump.num_experts, ep_size),
          .slot_expert = initial_slots(dump.num_layers(), dump.num_experts, ep_size)};
}

PolicyOptions policy_options(const PlanOptions& options, const RoutingHeader& dump, bool priced,
                             std::int64_t moves) {
  return {.topology = options.topology,
          .num_experts = dump.num_experts,
          .replica_slots = options.replica_slots,
          .tolerance = options.tolerance,
          .max_fan_out = options.max_fan_out,
          .search_moves = moves,
          .move_cost = priced ? options.move_cost.value_or(derived_move_cost()) : 0,
          .seed = options.seed,
          .details = options.details};
}

/// One plan in the making: run() calls the phases in order, each fills what the next ones read.
class StepPlanner {
 public:
  StepPlanner(const Comm& comm, const RoutingDump& dump, const CountedRouting& counted,
              const PlanOptions& options, const PreviousPlan* previous, const Progress& progress)
      : comm_(comm),
        dump_(dump),
        counts_(counted.counts),
        digest_(counted.digest),
        options_(options),
        progress_(progress),
        topology_(options.topology),
        moves_are_priced_(previous != nullptr || options.priced_start) {
    agreed(comm_, [&] {
      check_options(options_);
      if (previous) check_previous(*previous, dump_.header, options_);
      previous_ = previous ? *previous : contiguous_plan(dump_.header, topology_.ep_size);
    });
  }

  PlanResult run() {
    in_phase("pack", [&] { places_ = place_before_reordering(dump_, options_); });
    moves_ = options_.time_budget > 0 ? moves_in_budget() : options_.effort;
    in_phase("reorder", [&] { reorder(); });
    if (is_late()) fall_back();
    fill_placement();
    if (options_.repack && !result_.fell_back) repack_sequences();
    place_sequences();
    in_phase("replicate", [&] { replicate(); });
    if (is_late()) {
      fall_back();
      fill_placement();
      in_phase("fall back", [&] { replicate(); });
    }
    fill_header();
    Timer timer;
    result_.mine = share_out(comm_, result_.plan.header, cells_, options_.transfers);
    end_phase("gather", timer);
    return std::move(result_);
  }

 private:
  /// A phase without communication: its failure is agreed on, its time is the slowest rank's.
  template <class Work>
  void in_phase(const char* name, Work&& work) {
    Timer timer;
    progress_(name, 0);
    agreed(comm_, work);
    end_phase(name, timer);
  }
  void end_phase(const char* name, const Timer& timer) {
    progress_(name, 1);
    result_.phases.push_back({name, comm_.max(timer.seconds())});
  }

  /// Whether the budget is over and there is something left to cut short.
  bool out_of_time() const {
    return options_.fall_back && options_.time_budget > 0 && !result_.fell_back &&
           since_counts_.seconds() > options_.time_budget;
  }

  /// parallel_for that says how far it is, and does the rest not at all once time is over.
  template <class F>
  void for_each(const char* phase, std::int64_t count, F&& f) {
    std::atomic<std::int64_t> done{0};
    parallel_for(count, [&](std::int64_t i) {
      if (cut_short_ || out_of_time()) {
        cut_short_ = true;
        return;
      }
      f(i);
      const std::int64_t n = ++done;
      if (omp_get_thread_num() == 0) progress_(phase, double(n) / double(count));
    });
  }

  /// Collective. Whether any rank has left out work that the plan needs.
  bool is_late() { return options_.fall_back && !result_.fell_back && comm_.max(cut_short_ ? 1 : 0) != 0; }

  /// Homes as before, no copies: nothing to decide any more, only tables to fill.
  void fall_back() {
    result_.fell_back = true;
    cut_short_ = false;
    for (std::int64_t i = 0; i < owned(); ++i) {
      const auto home = previous_.placement.layer(owned_layer(i));
      decisions_[static_cast<std::size_t>(i)] = {.home = {home.begin(), home.end()}};
    }
  }

  /// Homes as before may need more slots than the policy gives.
  PlanShape shape() const {
    PlanShape shape = policy_->shape();
    const int more = result_.fell_back ? std::max(0, previous_.slots_per_rank - shape.slots_per_rank) : 0;
    shape.slots_per_rank += more;
    shape.physical_slots += more;
    return shape;
  }

  std::int64_t owned() const { return counts_.layers().size(); }
  LayerId owned_layer(std::int64_t i) const { return LayerId(counts_.layers().first + i); }

  LayerDecision decide(const Policy& policy, LayerId layer) const {
    const LayerLoads loads = layer_loads(counts_, layer, places_, topology_.ep_groups);
    return policy.between_steps(
        {.layer = layer, .loads = loads, .previous_home = previous_.placement.layer(layer)});
  }

  PlannedCell plan_cell(const Policy& policy, LayerId layer, const LayerDecision& decision,
                        std::span<const std::int32_t> sequences, const SequencePlaces& places) const {
    CellCounts counts(dump_.header.num_experts, topology_.world());
    fill_cell(counts_, layer, sequences, places, counts);
    PlannedCell cell;
    if (!result_.fell_back) cell.plan = policy.inside_step(decision, counts);
    tabulate(counts, decision.home, topology_, cell);
    if (!options_.transfers) cell.transfer = {};
    return cell;
  }

  BudgetTimes timed_samples() const;
  std::int64_t moves_in_budget();
  void reorder();
  void repack_sequences();
  void place_sequences();
  void replicate();
  void fill_placement();
  void fill_header();

  const Comm& comm_;
  const RoutingDump& dump_;
  const SequenceCounts& counts_;
  const std::string& digest_;
  const PlanOptions& options_;
  const Progress& progress_;
  const Topology topology_;
  const bool moves_are_priced_;
  const Timer since_counts_;

  PreviousPlan previous_;
  SequencePlaces places_;
  std::int64_t moves_ = 0;  ///< search moves a layer
  std::atomic<bool> cut_short_ = false;
  std::unique_ptr<Policy> policy_;
  std::vector<LayerDecision> decisions_;  ///< of owned layers
  std::vector<PlannedCell> cells_;        ///< micro-batch major over owned layers
  PlanResult result_;
};

BudgetTimes StepPlanner::timed_samples() const {
  BudgetTimes times{.left = options_.time_budget,
                    .layers = owned(),
                    .cells = owned() * places_.micro_batches,
                    .threads = omp_get_max_threads()};
  if (owned() == 0) return times;
  // Sources are not placed yet; which rank holds a sequence hardly changes what a cell costs to plan.
  SequencePlaces places = places_;
  if (places.source_rank.empty())
    for (std::size_t s = 0; s < places.group.size(); ++s)
      places.source_rank.push_back(places.group[s] * topology_.ep_size +
                                   static_cast<int>(s) % topology_.ep_size);
  const auto sequences = by_micro_batch(places);
  LayerDecision decision;
  std::unique_ptr<Policy> policy;
  time_searches(times, [&](std::int64_t moves) {
    policy = make_policy(options_.policy, policy_options(options_, dump_.header, moves_are_priced_, moves));
    return seconds_of([&] { decision = decide(*policy, owned_layer(0)); });
  });
  const std::size_t cells = std::min(sequences.size(), kTimedCells);
  const double seconds = seconds_of([&] {
    for (std::size_t m = 0; m < cells; ++m)
      plan_cell(*policy, owned_layer(0), decision, sequences[m], places);
  });
  if (cells > 0) times.cell = seconds / double(cells);
  return times;
}

std::int64_t StepPlanner::moves_in_budget() {
  Timer timer;
  std::int64_t moves = 0;
  agreed(comm_, [&] {
    BudgetTimes times = timed_samples();
    times.left = options_.time_budget - since_counts_.seconds();
    moves = moves_within_budget(times);
  });
  moves = comm_.min(moves);
  end_phase("calibrate", timer);
  return moves;
}

void StepPlanner::reorder() {
  policy_ = make_policy(options_.policy, policy_options(options_, dump_.header, moves_are_priced_, moves_));
  decisions_.resize(static_cast<std::size_t>(owned()));
  for_each("reorder", owned(), [&](std::int64_t i) {
    decisions_[static_cast<std::size_t>(i)] = decide(*policy_, owned_layer(i));
  });
}

void StepPlanner::repack_sequences() {
  Timer timer;
  const auto width = places_.group.size() * static_cast<std::size_t>(topology_.domains_per_group());
  std::vector<std::int32_t> mine(width * static_cast<std::size_t>(owned()));
  for (std::int64_t i = 0; i < owned(); ++i)
    load_nodes(counts_, owned_layer(i), decisions_[static_cast<std::size_t>(i)].home, topology_,
               std::span(mine).subspan(static_cast<std::size_t>(i) * width, width));
  const auto by_layer = comm_.gather_all(std::span<const std::int32_t>(mine));
  agreed(comm_, [&] {
    SequenceNodeLoads loads{topology_.domains_per_group(), dump_.header.num_layers(), {}};
    loads.data.resize(by_layer.size());
    const auto layers = static_cast<std::size_t>(loads.layers);
    for (std::size_t l = 0; l < layers; ++l)
      for (std::size_t i = 0; i < width; ++i) loads.data[i * layers + l] = by_layer[l * width + i];
    repack(dump_, loads, topology_.ep_groups, places_, places_.group);
  });
  end_phase("repack", timer);
}

void StepPlanner::place_sequences() {
  if (!places_.source_rank.empty() || dump_.sequences.size() == 0) return;
  Timer timer;
  std::vector<std::int64_t> affinity(places_.group.size() * static_cast<std::size_t>(topology_.nodes()));
  for (std::int64_t i = 0; i < owned(); ++i)
    add_affinity(counts_, owned_layer(i), decisions_[static_cast<std::size_t>(i)].home, places_, topology_,
                 affinity);
  comm_.sum_in_place(std::span(affinity));
  agreed(comm_,
         [&] { places_.source_rank = assign_sources(dump_, places_, places_.group, affinity, topology_); });
  end_phase("place", timer);
}

void StepPlanner::replicate() {
  const auto sequences = by_micro_batch(places_);
  cells_.resize(static_cast<std::size_t>(owned() * places_.micro_batches));
  for_each("replicate", owned() * places_.micro_batches, [&](std::int64_t q) {
    const std::int64_t i = q % owned();
    cells_[static_cast<std::size_t>(q)] =
        plan_cell(*policy_, owned_layer(i), decisions_[static_cast<std::size_t>(i)],
                  sequences[static_cast<std::size_t>(q / owned())], places_);
  });
}

void StepPlanner::fill_placement() {
  Plan& plan = result_.plan;
  std::vector<EpRankId> mine;
  for (const LayerDecision& decision : decisions_)
    mine.insert(mine.end(), decision.home.begin(), decision.home.end());
  const std::vector<EpRankId> homes = comm_.gather_all<EpRankId>(mine);
  plan.placement = Placement(dump_.header.num_layers(), dump_.header.num_experts);
  auto next = homes.begin();
  for (const LayerId l : all<LayerId>(dump_.header.num_layers()))
    for (EpRankId& home : plan.placement.layer(l)) home = *next++;
  plan.previous = previous_.placement;
  plan.slot_expert = assign_slots(plan.placement, topology_.ep_size, shape().slots_per_rank,
                                  previous_.placement, previous_.slot_expert, previous_.slots_per_rank);
}

void StepPlanner::fill_header() {
  Plan& plan = result_.plan;
  plan.micro_batch = places_.micro_batch;
  plan.source_rank = places_.source_rank;
  const bool searched = std::any_of(decisions_.begin(), decisions_.end(),
                                    [](const LayerDecision& layer) { return layer.search_moves > 0; });
  std::int64_t folded = 0;
  for (const PlannedCell& cell : cells_) folded += cell.plan.folded;
  const PlanShape shape = this->shape();
  plan.header = {.step = dump_.header.step,
                 .policy = options_.policy,
                 .seed = options_.seed,
                 .tool = std::string("relibra ") + RELIBRA_VERSION,
                 .num_experts = dump_.header.num_experts,
                 .top_k = dump_.header.top_k,
                 .num_micro_batches = places_.micro_batches,
                 .topology = topology_,
                 .slots_per_rank = shape.slots_per_rank,
                 .replica_slots = shape.replica_slots,
                 .physical_slots = shape.physical_slots,
                 .replica_domain = shape.domain,
                 .dump_digest = digest_,
                 .search_moves = comm_.max(searched ? moves_ : std::int64_t{0}),
                 .folded_copies = comm_.sum(folded),
                 .layers = dump_.header.layers};
}

}  // namespace

double derived_move_cost() {
  constexpr double kBytesOfParameter = 14, kNetwork = 50e9, kFlops = 400e12;
  return (3 * kBytesOfParameter / kNetwork) / (18 / kFlops);
}

PreviousPlan previous_of(const Plan& plan) {
  return {.layers = plan.header.layers,
          .num_experts = plan.header.num_experts,
          .ep_size = plan.header.topology.ep_size,
          .slots_per_rank = plan.header.slots_per_rank,
          .placement = plan.placement,
          .slot_expert = plan.slot_expert};
}

PlanResult plan_step(const Comm& comm, const RoutingDump& dump, const CountedRouting& counted,
                     const PlanOptions& options, const PreviousPlan* previous, const Progress& progress) {
  return StepPlanner(comm, dump, counted, options, previous, progress).run();
}

}  // namespace relibra
