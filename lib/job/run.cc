#include "lib/job/run.h"

#include <algorithm>

#include "io/dump_file.h"
#include "io/plan_file.h"
#include "lib/base/units.h"
#include "lib/comm/agree.h"
#include "lib/exec/collect.h"
#include "lib/exec/emulate.h"
#include "lib/exec/setup.h"
#include "lib/job/plan_files.h"
#include "lib/job/plan_fit.h"

namespace relibra {
namespace {

/// Everything known before a device is touched.
struct Prepared {
  exec::Selection selection;
  exec::ModelShape shape;
  std::vector<exec::SourceRoutes> sources;
  std::vector<exec::CarriedSchedules> variants;
};

void check_processes(const Comm& comm, const Plan& plan, const RunOptions& options) {
  const int world = plan.header.topology.world();
  const bool any = options.emulate || options.dry_run;
  if (comm.size() == world || (any && comm.size() < world)) return;
  throw_usage(
      {.where = "processes",
       .expected = std::to_string(world) + ", the plan's ranks" + (any ? ", or fewer" : ""),
       .found = std::to_string(comm.size()),
       .advice = "start one process a rank, or let fewer carry them in turn with --emulate (compute only)"});
}

void check_options(const RunOptions& options, const Plan& plan) {
  if (options.emulate && (options.verify || options.previous))
    throw_usage(
        {.where = "--emulate", .expected = "neither --verify nor --previous: nothing is sent between ranks"});
  if (options.repeat.repeats < 1 || options.repeat.warm_up < 0)
    throw_usage({.where = "--repeats, --warm-up", .expected = "at least 1 and 0"});
  if (!options.previous) return;
  const PreviousPlan& previous = *options.previous;
  if (previous.num_experts != plan.header.num_experts || previous.ep_size != plan.header.topology.ep_size ||
      previous.layers != plan.header.layers || !(previous.placement == plan.previous))
    throw_input({.where = "--previous",
                 .expected = "the plan that this plan was made after: its homes are this one's previous_rank",
                 .found = "other experts, layers, ranks or homes"});
}

exec::Selection select(const RunOptions& options, const PlanHeader& header) {
  exec::Selection selection;
  for (const int m : parse_list(options.micro_batches, header.num_micro_batches, "--micro-batches"))
    selection.micro_batches.emplace_back(m);
  for (const int l : parse_list(options.layers, header.num_layers(), "--layers"))
    selection.layers.emplace_back(l);
  return selection;
}

/// The smallest range of the plan's cells that holds the selected ones.
Range cell_range(const PlanHeader& header, const exec::Selection& selection) {
  if (selection.cells() == 0) return {};
  return {header.cell(selection.micro_batches.front(), selection.layers.front()),
          header.cell(selection.micro_batches.back(), selection.layers.back()) + 1};
}

Prepared prepare(const Comm& comm, RoutingSource& source, const Plan& plan, const CellsOf& cells_of,
                 const RunOptions& options) {
  Prepared prepared;
  agreed(comm, [&] {
    require_fit(source.dump(), plan);
    check_processes(comm, plan, options);
    check_options(options, plan);
    prepared.selection = select(options, plan.header);
    prepared.shape = model_shape(options, source.dump());
  });
  const auto ranks = exec::carried_ranks(plan.header.topology, comm.rank(), comm.size());
  const Range range = cell_range(plan.header, prepared.selection);
  const PlanCells cells = cells_of(range);
  prepared.sources = exec::collect_routes(source, plan, prepared.selection, ranks);
  const auto add = [&](const char* name, const Plan& of, const PlanCells& its_cells, bool evenly) {
    prepared.variants.push_back(
        {name, exec::build_schedules(comm, of, its_cells, prepared.sources, prepared.selection,
                                     {.max_fan_out = options.relay_past, .evenly = evenly})});
  };
  add("plan", plan, cells, false);
  if (options.baseline) {
    const Plan contiguous = exec::static_plan(plan);
    add("static", contiguous, exec::empty_cells(range), false);
    add("balanced", contiguous, exec::empty_cells(range), true);
  }
  return prepared;
}

exec::StepSizes sizes_of(const Prepared& prepared, const RunOptions& options) {
  if (options.emulate) return exec::emulated_sizes(prepared.variants);
  exec::StepSizes sizes;
  for (const auto& variant : prepared.variants)
    for (const auto& schedule : variant.ranks) sizes.include(schedule);
  if (options.previous)
    sizes.home_slots = std::max<std::int64_t>(sizes.home_slots, options.previous->slots_per_rank);
  return sizes;
}

/// Host memory of verify_step in doubles: inputs and gradients of every cell, results of a micro-batch, an
/// expert.
std::int64_t verify_bytes(const Prepared& prepared) {
  std::int64_t rows = 0, widest = 0;
  for (const auto& source : prepared.sources)
    for (const auto& of_micro_batch : source.rows) {
      rows += static_cast<std::int64_t>(of_micro_batch.size());
      widest = std::max(widest, static_cast<std::int64_t>(of_micro_batch.size()));
    }
  const auto layers = static_cast<std::int64_t>(prepared.selection.layers.size());
  return 8 * (2 * (rows + widest) * layers * prepared.shape.hidden + 4 * prepared.shape.expert_elements());
}

std::vector<exec::MemoryItem> memory_of(const Prepared& prepared, const exec::StepSizes& sizes,
                                        const RunOptions& options, const kernels::Backend* backend) {
  auto items = exec::memory_needed(sizes, prepared.shape);
  if (backend) {
    const std::vector<kernels::GemmGroup> groups(
        static_cast<std::size_t>(sizes.home_slots + sizes.copy_slots), {.rows = 1});
    const kernels::GemmSpec widest{kernels::GemmKind::weight_gradient,
                                   prepared.shape.type,
                                   2 * prepared.shape.intermediate,
                                   prepared.shape.hidden,
                                   groups.data(),
                                   static_cast<std::int32_t>(groups.size())};
    std::uint64_t scratch = 0;
    exec::check(*backend, backend->gemm_scratch(&widest, &scratch), "gemm_scratch");
    items.push_back({"scratch of grouped GEMMs", static_cast<std::int64_t>(scratch)});
  }
  if (options.previous)
    items.push_back({"reordering", exec::reorder_bytes(prepared.shape, options.previous->slots_per_rank,
                                                       static_cast<int>(sizes.home_slots))});
  if (options.verify) items.push_back({"verification in double, on the host", verify_bytes(prepared)});
  return items;
}

/// Item by item, the largest of all processes.
std::vector<exec::MemoryItem> largest(const Comm& comm, std::vector<exec::MemoryItem> items) {
  for (exec::MemoryItem& item : items) item.bytes = comm.max(item.bytes);
  return items;
}

void check_memory(const Comm& comm, const RunOptions& options, const exec::ChosenDevice& chosen,
                  std::int64_t needed, RunResult& result) {
  std::int64_t free = 0;
  agreed(comm, [&] {
    const bool host = chosen.device->backend().network_create == nullptr;
    free =
        static_cast<std::int64_t>(chosen.device->info().free_bytes) / (host ? chosen.processes_on_host : 1);
    if (options.memory_limit > 0) free = std::min(free, options.memory_limit);
  });
  result.memory_free = comm.min(free);
  agreed(comm, [&] {
    if (needed <= result.memory_free) return;
    std::string parts;
    for (const exec::MemoryItem& item : result.memory)
      if (item.bytes * 20 > needed)
        parts +=
            (parts.empty() ? "" : ", ") + item.what + " " + format_bytes(static_cast<double>(item.bytes));
    throw_environment(
        {.where = "memory",
         .expected = format_bytes(static_cast<double>(needed)) + " a rank (" + parts + ")",
         .found = format_bytes(static_cast<double>(result.memory_free)) + " free",
         .advice = "select fewer --layers or --micro-batches, smaller sizes, or use more hosts"});
  });
}

/// Collective. Steps of one rank a process: reordered, verified, measured.
void run_steps(const Comm& comm, const Plan& plan, const Prepared& prepared, const RunOptions& options,
               const exec::ChosenDevice& chosen, const exec::StepSizes& sizes, const RunVoice& voice,
               RunResult& result) {
  const exec::Device& device = *chosen.device;
  const exec::RankSchedule& schedule = prepared.variants[0].ranks[0];
  const exec::Stream stream(device);
  exec::RankBuffers buffers(device, sizes, prepared.shape);  // outlives what may still be under way into it
  const auto transport = exec::make_transport(comm, chosen, plan.header, options.timeout_seconds);
  exec::fill_plausibly(stream, prepared.shape, buffers);
  const exec::Generator generator(options.seed, prepared.shape, prepared.selection.layers.size());
  const auto home = exec::home_experts(plan, prepared.selection, schedule.rank);
  if (options.previous) {
    voice.say("moving experts from the plan before");
    const exec::PlacementBefore before{options.previous->placement, options.previous->slot_expert,
                                       options.previous->slots_per_rank};
    result.reordering =
        exec::reorder_experts(comm, *transport, stream, plan, before, prepared.selection.layers,
                              prepared.shape, generator, buffers, options.verify);
  } else {
    exec::load_home_weights(stream, generator, prepared.shape, prepared.selection, home, buffers);
  }
  if (options.verify) {
    voice.say("verifying a step");
    exec::Engine engine(device, *transport, schedule, prepared.shape, buffers);
    result.verify = exec::verify_step(comm, engine, schedule, prepared.shape, generator, prepared.sources[0],
                                      buffers, home, plan.header.num_experts);
  }
  if (!options.time) return;
  voice.say("measuring " + std::to_string(options.repeat.repeats) + " steps");
  std::vector<exec::NamedSchedule> variants;
  for (const auto& variant : prepared.variants) variants.push_back({variant.variant, &variant.ranks[0]});
  std::vector<exec::StepTimes> last;
  exec::RepeatOptions repeat = options.repeat;
  repeat.progress = [&](double done) { voice.progress("measure", done); };
  auto measured = exec::measure(comm, device, *transport, variants, prepared.shape, buffers, repeat,
                                options.trace ? &last : nullptr);
  for (std::size_t v = 0; v < measured.size(); ++v) {
    result.variants[v].measured = std::move(measured[v]);
    if (options.trace) result.variants[v].last = exec::gather_times(comm, last[v]);
  }
}

void run_emulated(const Comm& comm, const Prepared& prepared, const RunOptions& options,
                  const exec::Device& device, const exec::StepSizes& sizes, const RunVoice& voice,
                  RunResult& result) {
  const exec::Stream stream(device);
  exec::RankBuffers buffers(device, sizes, prepared.shape);
  exec::fill_plausibly(stream, prepared.shape, buffers);
  voice.say("computing in turn for " + std::to_string(result.header.topology.world()) + " ranks on " +
            std::to_string(comm.size()) + " processes");
  exec::RepeatOptions repeat = options.repeat;
  repeat.progress = [&](double done) { voice.progress("compute", done); };
  auto measured = exec::emulate(comm, device, prepared.variants, prepared.shape, buffers, repeat);
  for (std::size_t v = 0; v < measured.size(); ++v) result.variants[v].measured = std::move(measured[v]);
}

}  // namespace

RunResult run_plan(const Comm& comm, RoutingSource& source, const Plan& plan, const CellsOf& cells,
                   const RunOptions& options, const RunVoice& voice) {
  const Prepared prepared = prepare(comm, source, plan, cells, options);
  RunResult result{.processes = comm.size(),
                   .header = plan.header,
                   .selection = prepared.selection,
                   .shape = prepared.shape,
                   .emulated = options.emulate};
  for (const auto& variant : prepared.variants)
    result.variants.push_back(
        {.name = variant.variant,
         .figures = exec::gather_figures(comm, variant.ranks, plan.header.topology.world())});
  const exec::StepSizes sizes = sizes_of(prepared, options);
  if (options.dry_run) {
    result.memory = largest(comm, memory_of(prepared, sizes, options, nullptr));
    return result;
  }
  const exec::ChosenDevice chosen = exec::choose_backend(comm, options.backend, options.emulate);
  result.backend = chosen.device->backend().name;
  result.device = chosen.device->info().name;
  voice.say(chosen.why);
  const auto items = memory_of(prepared, sizes, options, &chosen.device->backend());
  const std::int64_t needed = comm.max(exec::total_bytes(items));
  result.memory = largest(comm, items);
  check_memory(comm, options, chosen, needed, result);
  voice.say("memory a rank: " + format_bytes(static_cast<double>(needed)) + " of " +
            format_bytes(static_cast<double>(result.memory_free)) + " free");
  if (options.emulate)
    run_emulated(comm, prepared, options, *chosen.device, sizes, voice, result);
  else
    run_steps(comm, plan, prepared, options, chosen, sizes, voice, result);
  return result;
}

RunResult run_plan_file(const Comm& comm, const std::string& plan_path, const std::vector<std::string>& dumps,
                        const RunOptions& options, const CountOptions& count, const RunVoice& voice) {
  const io::PlanFile file(comm, plan_path);
  const auto source = io::open_dump(comm, dumps);
  agreed(comm, [&] { require_fit(source->dump(), file.plan()); });
  voice.say("comparing the dump with the plan's digest");
  const std::string digest = count_routing(comm, *source, count).digest;
  agreed(comm, [&] { require_digest(plan_path, file.plan(), digest); });
  return run_plan(
      comm, *source, file.plan(), [&](Range range) { return file.read_cells(range, false); }, options, voice);
}

}  // namespace relibra
