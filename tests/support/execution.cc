#include "tests/support/execution.h"

namespace relibra::testing {

exec::Selection select_all(const Plan& plan) {
  exec::Selection selection;
  for (MicroBatchId m : all<MicroBatchId>(plan.header.num_micro_batches))
    selection.micro_batches.push_back(m);
  for (LayerId l : all<LayerId>(plan.header.num_layers())) selection.layers.push_back(l);
  return selection;
}

Execution::Execution(const Comm& comm, const ExecutionCase& input, const exec::ModelShape& shape,
                     int max_fan_out, std::uint64_t value_seed, const kernels::Backend& backend)
    : comm(comm),
      plan(input.plan),
      shape(shape),
      selection(select_all(input.plan)),
      generator(value_seed, this->shape),
      device(backend, exec::choose_device(comm, backend)) {
  auto source = input.source();
  const auto ranks = exec::carried_ranks(plan.header.topology, comm.rank(), comm.size());
  sources = exec::collect_routes(source, plan, selection, ranks);
  schedule =
      exec::build_schedules(comm, plan, input.cells, sources, selection, {.max_fan_out = max_fan_out}).at(0);
  transport = exec::make_transport(comm, device, plan.header.topology, schedule.domain, {});
}

exec::VerifyReport Execution::verify() {
  engine.reset();
  exec::StepSizes sizes;
  sizes.include(schedule);
  buffers = std::make_unique<exec::RankBuffers>(device, sizes, shape);
  engine = std::make_unique<exec::Engine>(device, *transport, schedule, shape, *buffers);
  const auto home = exec::home_experts(plan, selection, schedule.rank);
  exec::load_home_weights(engine->stream(), generator, shape, selection, home, *buffers);
  return exec::verify_step(comm, *engine, schedule, shape, generator, sources[0], *buffers, home,
                           plan.header.num_experts);
}

}  // namespace relibra::testing
