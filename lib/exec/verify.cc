#include "lib/exec/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace relibra::exec {
namespace {

enum Kind : std::size_t { kOutput, kInputGradient, kGateGradient, kKinds };
constexpr const char* kKindNames[] = {"outputs", "input gradients", "gate-weight gradients"};

/// Squared norms of a difference and of what it is measured by.
struct Norms {
  double difference = 0, reference = 0;

  void add(double got, double want) {
    difference += (got - want) * (got - want);
    reference += want * want;
  }
  double error() const {
    if (reference == 0) return difference == 0 ? 0 : std::numeric_limits<double>::infinity();
    const double ratio = std::sqrt(difference / reference);
    return std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
  }
};

void raise(VerifyKind& kind, double error, const std::string& tensor) {
  if (!kind.worst.empty() && error <= kind.error) return;
  kind.error = error;
  kind.worst = tensor;
}

std::string cell_name(const Selection& selection, std::size_t cell) {
  return "micro-batch " + std::to_string(selection.micro_batches[cell / selection.layers.size()].value()) +
         ", layer " + std::to_string(selection.layers[cell % selection.layers.size()].value());
}

/// Feeds the step from the generator and compares what each visit leaves.
class Comparison final : public StepHooks {
 public:
  Comparison(const Stream& stream, const RankSchedule& schedule, const ModelShape& shape,
             const Generator& generator, const SourceRoutes& source, RankBuffers& buffers)
      : stream_(stream),
        schedule_(schedule),
        shape_(shape),
        generator_(generator),
        source_(source),
        buffers_(buffers),
        reference_(generator, shape, schedule.selection, source),
        norms_(schedule.selection.cells() * kKinds),
        worst_row_(schedule.selection.cells() * 2) {}

  void load_input(std::int32_t m) override {
    expected_ = reference_.compute(static_cast<std::size_t>(m));
    load(m, [&](std::int64_t row, std::span<float> out) { generator_.input_row(row, out); });
  }
  void load_gradient(std::int32_t m) override {
    load(m, [&](std::int64_t row, std::span<float> out) { generator_.gradient_row(row, out); });
  }

  void after_visit(const Visit& visit) override {
    const std::size_t cell = schedule_.selection.cell(static_cast<std::size_t>(visit.micro_batch),
                                                      static_cast<std::size_t>(visit.layer));
    const Reference::Layer& expected = expected_[static_cast<std::size_t>(visit.layer)];
    const auto bytes = download<std::byte>(stream_, buffers_.layer_out.data(),
                                           expected.output.size() * kernels::size_of(shape_.type));
    const auto rows = from_type(bytes, shape_.type);
    if (!visit.backward) {
      compare_rows(cell, kOutput, rows, expected.output);
      return;
    }
    compare_rows(cell, kInputGradient, rows, expected.input_gradient);
    const auto gates =
        download<float>(stream_, buffers_.gate_out[static_cast<std::size_t>(visit.layer)].data(),
                        expected.gate_gradient.size());
    for (std::size_t i = 0; i < gates.size(); ++i)
      norms_[cell * kKinds + kGateGradient].add(gates[i], expected.gate_gradient[i]);
  }

  const Reference& reference() const { return reference_; }

  /// Collective: the sums of all ranks.
  void reduce(const Comm& comm, VerifyReport& report) {
    std::vector<double> sums, rows;
    for (const Norms& norms : norms_) sums.insert(sums.end(), {norms.difference, norms.reference});
    std::vector<double> tokens(schedule_.tokens.begin(), schedule_.tokens.end());
    comm.sum_in_place(std::span(sums));
    comm.sum_in_place(std::span(tokens));
    comm.max_in_place(std::span(worst_row_));
    for (std::size_t kind = 0; kind < kKinds; ++kind) report.kinds.push_back({.what = kKindNames[kind]});
    report.row.what = "worst row";
    const std::size_t layers = schedule_.selection.layers.size();
    for (std::size_t cell = 0; cell < schedule_.selection.cells(); ++cell)
      for (std::size_t kind = 0; kind < kKinds; ++kind) {
        const Norms norms{sums[(cell * kKinds + kind) * 2], sums[(cell * kKinds + kind) * 2 + 1]};
        const std::string tensor =
            std::string(kKindNames[kind]) + " of " + cell_name(schedule_.selection, cell);
        raise(report.kinds[kind], norms.error(), tensor);
        if (kind == kGateGradient || norms.reference == 0) continue;
        const double row = std::sqrt(norms.reference / tokens[cell / layers]);
        raise(report.row, worst_row_[cell * 2 + kind] / row, tensor);
      }
  }

 private:
  template <class F>
  void load(std::int32_t m, F&& row_of) {
    const auto& rows = source_.rows[static_cast<std::size_t>(m)];
    const auto h = static_cast<std::size_t>(shape_.hidden);
    std::vector<float> values(rows.size() * h);
    for (std::size_t t = 0; t < rows.size(); ++t) row_of(rows[t], std::span(values).subspan(t * h, h));
    const auto bytes = to_type(values, shape_.type);
    stream_.copy(buffers_.stream.data(), bytes.data(), bytes.size());
    stream_.synchronize();
  }

  void compare_rows(std::size_t cell, Kind kind, std::span<const float> got, std::span<const double> want) {
    const auto h = static_cast<std::size_t>(shape_.hidden);
    for (std::size_t t = 0; t < want.size() / h; ++t) {
      Norms row;
      for (std::size_t i = t * h; i < (t + 1) * h; ++i) row.add(got[i], want[i]);
      Norms& norms = norms_[cell * kKinds + kind];
      norms.difference += row.difference;
      norms.reference += row.reference;
      double& worst = worst_row_[cell * 2 + kind];
      worst = std::max(worst, std::sqrt(row.difference));
    }
  }

  const Stream& stream_;
  const RankSchedule& schedule_;
  const ModelShape& shape_;
  const Generator& generator_;
  const SourceRoutes& source_;
  RankBuffers& buffers_;
  Reference reference_;
  std::vector<Reference::Layer> expected_;
  std::vector<Norms> norms_;       // (cells, kinds)
  std::vector<double> worst_row_;  // (cells, outputs and input gradients)
};

/// Collective: every expert's weight gradient, on each of its homes.
VerifyKind compare_weight_gradients(const Comm& comm, const Stream& stream, const RankSchedule& schedule,
                                    const ModelShape& shape, const Reference& reference,
                                    const RankBuffers& buffers,
                                    const std::vector<std::vector<ExpertId>>& home, int num_experts) {
  VerifyKind kind{.what = "weight gradients"};
  const auto elements = static_cast<std::size_t>(shape.expert_elements());
  for (std::size_t l = 0; l < schedule.selection.layers.size(); ++l)
    for (ExpertId e : all<ExpertId>(num_experts)) {
      std::vector<double> want = reference.weight_gradient(l, e);
      comm.sum_in_place(std::span(want));
      const auto slot = std::find(home[l].begin(), home[l].end(), e);
      double error = 0;
      if (slot != home[l].end()) {
        const auto place = l * static_cast<std::size_t>(buffers.sizes.home_slots) +
                           static_cast<std::size_t>(slot - home[l].begin());
        const auto got =
            download<float>(stream, buffers.home_gradients.as<float>() + place * elements, elements);
        Norms norms;
        for (std::size_t i = 0; i < elements; ++i) norms.add(got[i], want[i]);
        error = norms.error();
      }
      raise(kind, comm.max(error),
            "weight gradient of expert " + std::to_string(e.value()) + " in layer " +
                std::to_string(schedule.selection.layers[l].value()));
    }
  return kind;
}

}  // namespace

bool VerifyReport::passed() const {
  return row.error < 10 * tolerance &&
         std::all_of(kinds.begin(), kinds.end(), [&](const VerifyKind& k) { return k.error < tolerance; });
}

double verify_tolerance(kernels::Type type) {
  return type == kernels::Type::float32 ? 1e-5 : 2e-2;
}

VerifyReport verify_step(const Comm& comm, Engine& engine, const RankSchedule& schedule,
                         const ModelShape& shape, const Generator& generator, const SourceRoutes& source,
                         RankBuffers& buffers, const std::vector<std::vector<ExpertId>>& home,
                         int num_experts) {
  VerifyReport report{.tolerance = verify_tolerance(shape.type)};
  Comparison comparison(engine.stream(), schedule, shape, generator, source, buffers);
  engine.step(comparison);
  comparison.reduce(comm, report);
  report.kinds.push_back(compare_weight_gradients(comm, engine.stream(), schedule, shape,
                                                  comparison.reference(), buffers, home, num_experts));
  return report;
}

std::vector<std::vector<ExpertId>> home_experts(const Plan& plan, const Selection& selection, RankId rank) {
  const Topology& topology = plan.header.topology;
  const auto slots = static_cast<std::size_t>(plan.header.slots_per_rank);
  std::vector<std::vector<ExpertId>> home;
  for (const LayerId l : selection.layers) {
    const std::size_t at =
        (l.index() * static_cast<std::size_t>(topology.ep_size) + topology.ep_rank_of(rank).index()) * slots;
    const auto first = plan.slot_expert.begin() + static_cast<std::ptrdiff_t>(at);
    home.emplace_back(first, first + static_cast<std::ptrdiff_t>(slots));
  }
  return home;
}

void load_home_weights(const Stream& stream, const Generator& generator, const ModelShape& shape,
                       const Selection& selection, const std::vector<std::vector<ExpertId>>& home,
                       RankBuffers& buffers) {
  std::vector<float> values(static_cast<std::size_t>(shape.expert_elements()));
  for (std::size_t l = 0; l < selection.layers.size(); ++l)
    for (std::size_t slot = 0; slot < home[l].size(); ++slot) {
      if (!home[l][slot].valid()) continue;
      generator.expert(selection.layers[l], home[l][slot], values);
      const auto bytes = to_type(values, shape.type);
      const auto place = l * static_cast<std::size_t>(buffers.sizes.home_slots) + slot;
      stream.copy(buffers.home_weights.data() + place * bytes.size(), bytes.data(), bytes.size());
      stream.synchronize();
    }
}

}  // namespace relibra::exec
