#include "tests/support/execution.h"

#include "kernels/registry.h"

namespace relibra::testing {
namespace {

/// Feeds a step from the generator and keeps what it leaves.
class Capture final : public exec::StepHooks {
 public:
  Capture(Execution& execution, StepResults& results) : e_(execution), results_(results) {}

  void load_input(std::int32_t m) override {
    load(m, [&](std::int64_t row, std::span<float> out) { e_.generator.input_row(row, out); });
  }
  void load_gradient(std::int32_t m) override {
    load(m, [&](std::int64_t row, std::span<float> out) { e_.generator.gradient_row(row, out); });
  }
  void after_visit(const exec::Visit& visit) override {
    const auto& stream = e_.engine->stream();
    const auto tokens =
        static_cast<std::size_t>(e_.schedule.tokens[static_cast<std::size_t>(visit.micro_batch)]);
    const auto bytes = tokens * static_cast<std::size_t>(e_.shape.hidden * e_.shape.element_bytes());
    results_.layer_out.push_back(exec::from_type(
        exec::download<std::byte>(stream, e_.buffers->layer_out.data(), bytes), e_.shape.type));
    if (visit.backward)
      results_.gates.push_back(
          exec::download<float>(stream, e_.buffers->gate_out[static_cast<std::size_t>(visit.layer)].data(),
                                tokens * static_cast<std::size_t>(e_.schedule.top_k)));
  }

 private:
  template <class F>
  void load(std::int32_t m, F&& row_of) {
    const auto& rows = e_.sources[0].rows[static_cast<std::size_t>(m)];
    const auto h = static_cast<std::size_t>(e_.shape.hidden);
    std::vector<float> values(rows.size() * h);
    for (std::size_t t = 0; t < rows.size(); ++t) row_of(rows[t], std::span(values).subspan(t * h, h));
    const auto bytes = exec::to_type(values, e_.shape.type);
    e_.engine->stream().copy(e_.buffers->stream.data(), bytes.data(), bytes.size());
    e_.engine->stream().synchronize();
  }

  Execution& e_;
  StepResults& results_;
};

const kernels::Backend& backend_of(const ExecutionOptions& options) {
  return options.backend ? *options.backend : kernels::reference_backend();
}

}  // namespace

exec::Selection select_all(const Plan& plan) {
  exec::Selection selection;
  for (MicroBatchId m : all<MicroBatchId>(plan.header.num_micro_batches))
    selection.micro_batches.push_back(m);
  for (LayerId l : all<LayerId>(plan.header.num_layers())) selection.layers.push_back(l);
  return selection;
}

std::vector<const kernels::Backend*> step_backends(const Comm& comm) {
  std::vector<const kernels::Backend*> found;
  for (const kernels::Backend* backend : test_backends()) {
    std::int32_t devices = 0;
    const bool counted = backend->device_count(&devices) == kernels::Status::ok;
    if (!backend->network_create || (counted && devices >= comm.size())) found.push_back(backend);
  }
  return found;
}

Execution::Execution(const Comm& comm, const ExecutionCase& input, const exec::ModelShape& shape,
                     const ExecutionOptions& options)
    : comm(comm),
      plan(input.plan),
      timeout_seconds(options.timeout_seconds),
      shape(shape),
      selection(select_all(input.plan)),
      generator(options.value_seed, this->shape, selection.layers.size()),
      device(backend_of(options), exec::choose_device(comm, backend_of(options))) {
  auto source = input.source();
  const auto ranks = exec::carried_ranks(plan.header.topology, comm.rank(), comm.size());
  sources = exec::collect_routes(source, plan, selection, ranks);
  schedule =
      exec::build_schedules(comm, plan, input.cells, sources, selection, {.max_fan_out = options.max_fan_out})
          .at(0);
}

void Execution::prepare() {
  engine.reset();
  transport.reset();
  exec::StepSizes sizes;
  sizes.include(schedule);
  buffers = std::make_unique<exec::RankBuffers>(device, sizes, shape);
  transport = exec::make_transport(comm, device, plan.header.topology, schedule.domain,
                                   {.timeout_seconds = timeout_seconds, .oversubscribed = true});
  engine = std::make_unique<exec::Engine>(device, *transport, schedule, shape, *buffers);
  exec::fill_plausibly(engine->stream(), shape, *buffers);
  exec::load_home_weights(engine->stream(), generator, shape, selection,
                          exec::home_experts(plan, selection, schedule.rank), *buffers);
}

exec::VerifyReport Execution::verify() {
  prepare();
  return exec::verify_step(comm, *engine, schedule, shape, generator, sources[0], *buffers,
                           exec::home_experts(plan, selection, schedule.rank), plan.header.num_experts);
}

StepResults Execution::run() {
  prepare();
  StepResults results;
  Capture capture(*this, results);
  engine->step(capture);
  results.home_gradients = exec::download<float>(engine->stream(), buffers->home_gradients.data(),
                                                 buffers->home_gradients.bytes() / sizeof(float));
  return results;
}

std::vector<float> Execution::gradients_by_expert(const StepResults& results) const {
  const auto home = exec::home_experts(plan, selection, schedule.rank);
  const auto elements = static_cast<std::size_t>(shape.expert_elements());
  const auto experts = static_cast<std::size_t>(plan.header.num_experts);
  std::vector<float> all(selection.layers.size() * experts * elements);
  for (std::size_t l = 0; l < home.size() && schedule.group() == GroupId(0); ++l)
    for (std::size_t slot = 0; slot < home[l].size(); ++slot)
      if (home[l][slot].valid())
        std::copy_n(
            results.home_gradients.begin() +
                static_cast<std::ptrdiff_t>((l * home[l].size() + slot) * elements),
            elements,
            all.begin() + static_cast<std::ptrdiff_t>((l * experts + home[l][slot].index()) * elements));
  comm.sum_in_place(std::span(all));
  return all;
}

}  // namespace relibra::testing
