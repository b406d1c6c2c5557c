// Verified steps: forward, backward, gate and weight gradients against the placement-free reference, on the
// host and on every device backend at hand. The number of ranks is that of mpirun; plans are drawn for every
// way to cut it into groups and nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/execution.h"

namespace relibra::exec {
namespace {

using relibra::testing::CaseOptions;
using relibra::testing::Execution;
using relibra::testing::execution_case;
using relibra::testing::ExecutionCase;
using relibra::testing::step_backends;
using relibra::testing::StepResults;

std::string text_of(const VerifyReport& report) {
  std::string text;
  for (const VerifyKind& kind : report.kinds)
    text += kind.what + " " + std::to_string(kind.error * 1e6) + "e-6 (" + kind.worst + ")\n";
  return text + report.row.what + " " + std::to_string(report.row.error * 1e6) + "e-6\n";
}

/// Ways to cut `world` ranks into EP groups and nodes.
std::vector<Topology> topologies(int world) {
  std::vector<Topology> found;
  for (const int groups : {1, 2})
    for (const int node : {1, 2, 4}) {
      const Topology t{world / groups, groups, node};
      if (world % groups == 0 && (t.ep_size % node == 0 || node % t.ep_size == 0) && node <= world)
        found.push_back(t);
    }
  return found;
}

TEST(Engine, RandomPlansAreExecutedExactly) {
  const Comm comm = Comm::world();
  std::uint64_t seed = 1;
  for (const kernels::Backend* backend : step_backends(comm))
    for (const Topology& topology : topologies(comm.size()))
      for (const ReplicaDomain domain : {ReplicaDomain::node, ReplicaDomain::group}) {
        CaseOptions options{.topology = topology, .domain = domain};
        options.experts = 7 + static_cast<int>(seed % 4);
        options.top_k = 1 + static_cast<int>(seed % 3);
        options.sequences = 5 * comm.size();
        options.weights = seed % 2 == 0;
        const auto input = execution_case(seed++, options);
        Execution execution(comm, input, {.hidden = 24, .intermediate = 20}, {.backend = backend});
        const VerifyReport report = execution.verify();
        EXPECT_TRUE(report.passed()) << backend->name << ", seed " << seed - 1 << "\n" << text_of(report);
      }
}

// As deep as the deepest preset; what a layer adds must stay small enough for float32.
TEST(Engine, NinetyFourLayers) {
  const Comm comm = Comm::world();
  CaseOptions options{.topology = {comm.size(), 1, comm.size()}, .experts = 2 * comm.size(), .top_k = 1};
  options.layers = 94;
  options.micro_batches = 1;
  options.sequences = 2;
  options.weights = false;
  const auto input = execution_case(94, options);
  Execution execution(comm, input, {.hidden = 12, .intermediate = 16});
  const VerifyReport report = execution.verify();
  EXPECT_TRUE(report.passed()) << text_of(report);
}

TEST(Engine, EmptyMicroBatchesIdleRanksAndUnusedExperts) {
  const Comm comm = Comm::world();
  for (const Topology& topology : topologies(comm.size())) {
    CaseOptions options{.topology = topology, .experts = 24, .empty_micro_batch = true};
    options.idle_rank = true;
    options.missing_rows = 0.3;
    options.sequences = 2 * comm.size();
    options.copy_share = 1;
    const auto input = execution_case(11, options);
    Execution execution(comm, input, {.hidden = 16, .intermediate = 8});
    EXPECT_EQ(execution.schedule.tokens[0], 0);
    const VerifyReport report = execution.verify();
    EXPECT_TRUE(report.passed()) << text_of(report);
  }
}

// One hot expert with copies on all other ranks of the group: relays pass weights on (from 5 ranks on), and
// all gradients come home.
TEST(Engine, CopiesEverywhereAreRelayed) {
  const Comm comm = Comm::world();
  CaseOptions options{.topology = {comm.size(), 1, 1}, .experts = 2 * comm.size(), .replica_slots = 1};
  options.sequences = 4 * comm.size();
  auto input = execution_case(5, options);
  relibra::testing::copy_everywhere(input, ExpertId(0));
  Execution execution(comm, input, {.hidden = 16, .intermediate = 8}, {.max_fan_out = 1});
  const VerifyReport report = execution.verify();
  EXPECT_TRUE(report.passed()) << text_of(report);
}

TEST(Engine, BfloatStaysWithinItsTolerance) {
  const Comm comm = Comm::world();
  for (const kernels::Backend* backend : step_backends(comm)) {
    CaseOptions options{.topology = {comm.size(), 1, comm.size()}};
    const auto input = execution_case(3, options);
    Execution execution(comm, input, {.hidden = 32, .intermediate = 16, .type = kernels::Type::bfloat16},
                        {.backend = backend});
    const VerifyReport report = execution.verify();
    EXPECT_TRUE(report.passed()) << backend->name << "\n" << text_of(report);
    EXPECT_GT(report.kinds[0].error, 1e-4) << "float32 was used where bfloat16 was asked for";
  }
}

TEST(Engine, AttentionStandInChangesNothing) {
  const Comm comm = Comm::world();
  const auto input = execution_case(4, {.topology = {comm.size(), 1, comm.size()}});
  const StepResults without = Execution(comm, input, {.hidden = 16, .intermediate = 8}).run();
  const StepResults with =
      Execution(comm, input, {.hidden = 16, .intermediate = 8, .attention_columns = 30}).run();
  EXPECT_EQ(without, with);
}

TEST(Engine, TheSamePlanTwiceGivesTheSameBits) {
  const Comm comm = Comm::world();
  for (const Topology& topology : topologies(comm.size())) {
    const auto input = execution_case(6, {.topology = topology, .top_k = 3});
    const exec::ModelShape shape{.hidden = 24, .intermediate = 20};
    EXPECT_EQ(Execution(comm, input, shape).run(), Execution(comm, input, shape).run());
  }
}

double distance(std::span<const float> a, std::span<const float> b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return size == 0 ? 0 : std::sqrt(difference / size);
}

TEST(Engine, ResultsDoNotDependOnThePlan) {
  const Comm comm = Comm::world();
  for (const Topology& topology : topologies(comm.size())) {
    const CaseOptions options{.topology = topology, .top_k = 3};
    const auto one = execution_case(7, options, 0), other = execution_case(7, options, 1);
    ASSERT_EQ(one.ids, other.ids);
    ASSERT_TRUE(topology.ep_size == 1 || !(one.plan.placement == other.plan.placement));
    const exec::ModelShape shape{.hidden = 24, .intermediate = 20};
    Execution first(comm, one, shape), second(comm, other, shape);
    const StepResults a = first.run(), b = second.run();
    for (std::size_t v = 0; v < a.layer_out.size(); ++v)
      EXPECT_LT(distance(a.layer_out[v], b.layer_out[v]), 1e-5);
    for (std::size_t v = 0; v < a.gates.size(); ++v) EXPECT_LT(distance(a.gates[v], b.gates[v]), 1e-5);
    EXPECT_LT(distance(first.gradients_by_expert(a), second.gradients_by_expert(b)), 1e-5);
  }
}

// One layer, H = I = 1, K = 2; the tokens are on rank 0. Expert 0 has Wg = Wu = W2 = 1, expert 1 has W2 = 2.
// Expert 0's home is rank 0, and where there is a rank 1, it holds expert 1 and a copy of expert 0 that
// computes token 1.
//
// Token 0: x = 2, experts 0 and 1 with weights 1/2 and 1/4, output gradient 1.
//   g = u = 2, s = sigmoid(2) = 0.8807971, h = 2 s * 2 = 3.5231883
//   y = 1/2 * 3.5231883 + 1/4 * 2 * 3.5231883 = 3.5231883
//   gate gradients: 1 * h = 3.5231883 and 2 * h = 7.0463766
//   both experts have w dh = 1/2: dg = 1/2 * 2 * (s + 2 s (1 - s)) = 1.0907842, du = 1/2 * 2 s = 0.8807971
//   dx = 2 * (dg + du) = 3.9431626
// Token 1: x = 1, expert 0 alone with weight 1, output gradient 2.
//   s = 0.7310586, h = 0.7310586, y = 0.7310586, gate gradient 1.4621172
//   dg = 2 (s + s (1 - s)) = 1.8553410, du = 2 s = 1.4621172, dx = 3.3174582
// Weight gradients, dWg = sum dg x, dWu = sum du x, dW2 = sum w d h:
//   expert 0: 2.1815684 + 1.8553410 = 4.0369094, 1.7615942 + 1.4621172 = 3.2237114, the same 3.2237114
//   expert 1: 2.1815684, 1.7615942, 1/4 * 3.5231883 = 0.8807971
TEST(Engine, TwoTokensByHand) {
  const Comm comm = Comm::world();
  const bool two = comm.size() > 1;
  const ExecutionCase input = relibra::testing::hand_case(comm.size());
  Execution execution(comm, input, {.hidden = 1, .intermediate = 1});
  execution.prepare();
  struct ByHand final : StepHooks {
    Execution& e;
    std::vector<float> out, dx, gates;
    explicit ByHand(Execution& e) : e(e) {}
    void load(float first, float second) {
      const float values[] = {first, second};
      if (e.schedule.tokens[0]) e.engine->stream().copy(e.buffers->stream.data(), values, sizeof values);
      e.engine->stream().synchronize();
    }
    void load_input(std::int32_t) override { load(2, 1); }
    void load_gradient(std::int32_t) override { load(1, 2); }
    void after_visit(const Visit& visit) override {
      const auto tokens = static_cast<std::size_t>(e.schedule.tokens[0]);
      (visit.backward ? dx : out) = download<float>(e.engine->stream(), e.buffers->layer_out.data(), tokens);
      if (visit.backward)
        gates = download<float>(e.engine->stream(), e.buffers->gate_out[0].data(), 2 * tokens);
    }
  } hooks(execution);
  const auto home = home_experts(execution.plan, execution.selection, execution.schedule.rank)[0];
  for (std::size_t slot = 0; slot < home.size(); ++slot) {
    const float weights[] = {1, 1, home[slot] == ExpertId(1) ? 2.0f : 1.0f};
    execution.engine->stream().copy(execution.buffers->home_weights.as<float>() + 3 * slot, weights,
                                    sizeof weights);
  }
  execution.engine->stream().synchronize();
  execution.engine->step(hooks);

  using ::testing::FloatNear;
  using ::testing::Pointwise;
  const auto near = [](std::vector<float> values) { return Pointwise(::testing::FloatNear(2e-6f), values); };
  if (comm.root()) {
    EXPECT_THAT(hooks.out, near({3.5231883f, 0.7310586f}));
    EXPECT_THAT(hooks.dx, near({3.9431626f, 3.3174582f}));
    EXPECT_THAT(hooks.gates, near({3.5231883f, 7.0463766f, 1.4621172f, 0}));
  }
  if (two && comm.rank() == 1) {
    EXPECT_EQ(execution.schedule.cells[0].receive.assignments(), 2);  // expert 1 and the copy
  }
  StepResults results;
  results.home_gradients =
      download<float>(execution.engine->stream(), execution.buffers->home_gradients.data(),
                      execution.buffers->home_gradients.bytes() / sizeof(float));
  EXPECT_THAT(execution.gradients_by_expert(results),
              near({4.0369094f, 3.2237114f, 3.2237114f, 2.1815684f, 1.7615942f, 0.8807971f}));
}

}  // namespace
}  // namespace relibra::exec
