#include "lib/exec/engine.h"

#include <optional>

namespace relibra::exec {

/// The stand-in for attention: a GEMM over this rank's tokens, its result unused.
struct Engine::Attention {
  Attention(const Device& device, const RankSchedule& schedule, const ModelShape& shape,
            const RankBuffers& buffers) {
    for (const std::int32_t tokens : schedule.tokens) {
      const kernels::GemmGroup group{tokens, buffers.stream.data(), buffers.attention_weights.data(),
                                     buffers.attention_out.data(), false};
      by_micro_batch.emplace_back(
          device, kernels::GemmSpec{kernels::GemmKind::forward, shape.type, shape.attention_columns,
                                    shape.hidden, &group, tokens > 0 ? 1 : 0});
    }
  }
  void run(const Visit& visit, kernels::Stream* stream) const {
    const Gemm& gemm = by_micro_batch[static_cast<std::size_t>(visit.micro_batch)];
    gemm.run(stream);
    if (visit.backward) gemm.run(stream);  // two products of the forward's size
  }
  std::vector<Gemm> by_micro_batch;
};

struct Engine::VisitRecord {
  explicit VisitRecord(const Device& device) {
    for (std::size_t m = 0; m < kMarks; ++m) marks.emplace_back(device);
  }
  std::vector<Event> marks;
  std::optional<Transport::Ticket> push, gradients;
};

Engine::Engine(const Device& device, Transport& transport, const RankSchedule& schedule,
               const ModelShape& shape, RankBuffers& buffers)
    : device_(device),
      transport_(transport),
      schedule_(schedule),
      shape_(shape),
      buffers_(buffers),
      stream_(device),
      tokens_(transport, stream_, schedule, shape, buffers),
      weights_(transport, stream_, schedule, shape, buffers),
      step_begin_(device),
      visits_done_(device),
      step_end_(device) {
  for (const CellSchedule& cell : schedule.cells) tables_.emplace_back(stream_, cell);
  for (const Visit& visit : schedule.visits) {
    compute_.emplace_back(device, schedule, visit, shape, buffers);
    records_.emplace_back(device);
  }
  if (shape.attention_columns > 0) attention_ = std::make_unique<Attention>(device, schedule, shape, buffers);
}

Engine::~Engine() = default;

const CellTables& Engine::tables(const Visit& visit) const {
  return tables_[schedule_.selection.cell(static_cast<std::size_t>(visit.micro_batch),
                                          static_cast<std::size_t>(visit.layer))];
}

void Engine::mark(std::size_t index, Mark mark) const {
  records_[index].marks[static_cast<std::size_t>(mark)].record(stream_.handle());
}

void Engine::begin_push(std::size_t index) {
  if (index < schedule_.visits.size() && schedule_.visits[index].push_first)
    records_[index].push = weights_.push(schedule_.visits[index]);
}

void Engine::step(StepHooks& hooks) {
  const auto elements = static_cast<std::int64_t>(buffers_.home_gradients.bytes() / sizeof(float));
  device_.check(device_.backend().fill(stream_.handle(), buffers_.home_gradients.data(),
                                       kernels::Type::float32, 0, elements),
                "fill");
  transport_.barrier(Channel::tokens, stream_.handle());
  step_begin_.record(stream_.handle());
  begin_push(0);
  for (std::size_t i = 0; i < schedule_.visits.size(); ++i) run_visit(i, hooks);
  weights_.settle_returns();
  visits_done_.record(stream_.handle());
  weights_.sum_homes();
  step_end_.record(stream_.handle());
  transport_.finish(stream_.handle());
}

void Engine::run_visit(std::size_t index, StepHooks& hooks) {
  const Visit& visit = schedule_.visits[index];
  const CellTables& table = tables(visit);
  const ExpertCompute& compute = compute_[index];
  const bool first = visit.layer == 0;
  const bool last = visit.layer + 1 == static_cast<std::int32_t>(schedule_.selection.layers.size());
  if (first && !visit.backward) hooks.load_input(visit.micro_batch);
  if (last && visit.backward) hooks.load_gradient(visit.micro_batch);

  mark(index, Mark::begin);
  begin_push(index + 1);
  if (attention_) attention_->run(visit, stream_.handle());
  mark(index, Mark::attention);
  tokens_.gather(visit, table);
  mark(index, Mark::gathered);
  tokens_.dispatch(visit);
  mark(index, Mark::dispatched);
  if (records_[index].push) transport_.wait(*records_[index].push, stream_.handle());
  mark(index, Mark::weights);
  if (visit.backward)
    compute.backward_to_hidden(stream_, table);
  else
    compute.forward(stream_, table);
  mark(index, Mark::hidden);
  weights_.settle_returns();
  mark(index, Mark::settled);
  if (visit.backward) compute.backward_weights(stream_, table);
  mark(index, Mark::computed);
  if (visit.backward) records_[index].gradients = weights_.return_gradients(visit);
  transport_.barrier(Channel::tokens, stream_.handle());
  mark(index, Mark::released);
  tokens_.bring_back(visit);
  mark(index, Mark::returned);
  tokens_.combine(visit, table);
  mark(index, Mark::combined);
  hooks.after_visit(visit);
}

StepTimes Engine::times() const {
  const auto since = [&](kernels::Event* event) { return elapsed(device_, step_begin_.handle(), event); };
  const auto flight = [&](const std::optional<Transport::Ticket>& ticket) {
    if (!ticket) return Interval{};
    const auto events = transport_.flight(*ticket);
    return Interval{since(events.begun), since(events.done)};
  };
  StepTimes times;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    VisitTimes& visit = times.visits.emplace_back();
    visit.visit = schedule_.visits[i];
    for (std::size_t m = 0; m < kMarks; ++m) visit.at[m] = since(records_[i].marks[m].handle());
    visit.push = flight(records_[i].push);
    visit.gradients = flight(records_[i].gradients);
  }
  times.home_sum = elapsed(device_, visits_done_.handle(), step_end_.handle());
  times.total = since(step_end_.handle());
  return times;
}

}  // namespace relibra::exec
