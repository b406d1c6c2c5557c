// The execution phase from a plan in memory: what it takes, says and refuses.
#include "lib/job/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "lib/job/run_report.h"
#include "tests/support/execution_case.h"

namespace relibra {
namespace {

using relibra::testing::execution_case;
using relibra::testing::ExecutionCase;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseList, NumbersAndRanges) {
  EXPECT_THAT(parse_list("", 3, "--layers"), ElementsAre(0, 1, 2));
  EXPECT_THAT(parse_list("2", 3, "--layers"), ElementsAre(2));
  EXPECT_THAT(parse_list("7,0-2,1", 8, "--layers"), ElementsAre(0, 1, 2, 7));
  for (const char* bad : {"8", "-1", "a", "1,", ",", "1-", "0-8", "3-1", "1.5"})
    EXPECT_THROW(parse_list(bad, 8, "--layers"), Error) << bad;
}

TEST(ModelShape, PresetAndOwnSizes) {
  RoutingDump dump;
  dump.sequences.num_tokens = {1000, 3000};
  RunOptions options{.model = "qwen3-235b"};
  const auto preset = model_shape(options, dump);
  EXPECT_EQ(preset.hidden, 4096);
  EXPECT_EQ(preset.intermediate, 1536);
  // Projections 2 * 4096 * (8192 + 512) and scores 2000 * 8192, over H: 17408 + 4000.
  EXPECT_EQ(preset.attention_columns, 21408);
  options.hidden = 256;
  options.attention = false;
  const auto own = model_shape(options, dump);
  EXPECT_EQ(own.hidden, 256);
  EXPECT_EQ(own.intermediate, 1536);
  EXPECT_EQ(own.attention_columns, 0);
  EXPECT_EQ(own.forward_flops(), 6.0 * 256 * 1536);
  EXPECT_THROW(model_shape(RunOptions{.hidden = 8}, dump), Error);
}

/// The cells of a case as plan_step would leave them: spread over the processes.
PlanCells share_of_cells(const Comm& comm, const PlanCells& all, int world) {
  PlanCells mine;
  mine.cells = share_of(all.cells.size(), comm.rank(), comm.size());
  for (std::int64_t cell = mine.cells.first; cell < mine.cells.last; ++cell) {
    for (const Copy& copy : all.copies_of(cell)) mine.copies.push_back(copy);
    for (const SplitEntry& entry : all.split_of(cell)) mine.split.push_back(entry);
    mine.copy_offset.push_back(static_cast<std::int64_t>(mine.copies.size()));
    mine.split_offset.push_back(static_cast<std::int64_t>(mine.split.size()));
    for (int r = 0; r < world; ++r)
      mine.rank_tokens.push_back(all.rank_tokens[static_cast<std::size_t>(cell * world + r)]);
  }
  return mine;
}

TEST(GatherCells, EveryProcessGetsTheRangeItAskedFor) {
  const Comm comm = Comm::world();
  const ExecutionCase input = execution_case(51, {.topology = {4, 1, 2}, .layers = 3, .micro_batches = 3});
  const PlanCells mine = share_of_cells(comm, input.cells, 4);
  for (const Range range : {Range{0, 9}, Range{2, 5}, Range{8, 9}, Range{4, 4}}) {
    const PlanCells got = gather_cells(comm, mine, range);
    ASSERT_EQ(got.cells, range);
    for (std::int64_t cell = range.first; cell < range.last; ++cell) {
      EXPECT_TRUE(std::ranges::equal(got.copies_of(cell), input.cells.copies_of(cell)));
      EXPECT_TRUE(std::ranges::equal(got.split_of(cell), input.cells.split_of(cell)));
    }
    EXPECT_EQ(got.rank_tokens.size(), static_cast<std::size_t>(range.size() * 4));
  }
}

class RunPlan : public ::testing::Test {
 protected:
  RunResult run(const ExecutionCase& input, const RunOptions& options) {
    auto source = input.source();
    const PlanCells mine = share_of_cells(comm, input.cells, input.plan.header.topology.world());
    return run_plan(comm, source, input.plan, [&](Range range) { return gather_cells(comm, mine, range); },
                    options,
                    {[&](const std::string& line) { said += line + "\n"; },
                     [&](std::string_view, double done) { last_progress = done; }});
  }
  template <class F>
  Error error_of(F&& f) {
    try {
      f();
    } catch (const Error& error) {
      EXPECT_TRUE(error.agreed()) << error.what();
      return error;
    }
    return Error::with_message(Fault::check, "no error");
  }

  const Comm comm = Comm::world();
  std::string said;
  double last_progress = -1;
  const RunOptions small{.backend = exec::BackendChoice::cpu,
                         .hidden = 16,
                         .intermediate = 8,
                         .verify = true,
                         .baseline = true,
                         .repeat = {.warm_up = 0, .repeats = 2},
                         .trace = true};
};

TEST_F(RunPlan, VerifiedMeasuredAndTold) {
  const ExecutionCase input = execution_case(52, {.topology = {comm.size(), 1, comm.size()}});
  const RunResult result = run(input, small);
  EXPECT_TRUE(run_passed(result));
  EXPECT_EQ(result.backend, "reference");
  ASSERT_EQ(result.variants.size(), 3u);
  EXPECT_EQ(result.variants[0].measured.step.size(), 2u);
  EXPECT_THAT(said, HasSubstr("memory a rank"));
  EXPECT_GT(last_progress, 0.5);
  std::ostringstream text;
  print_run(text, result);
  EXPECT_THAT(text.str(), HasSubstr("verified against the placement-free reference"));
  EXPECT_THAT(text.str(), HasSubstr("RESULT run policy=random"));
  const auto json = run_json(result);
  EXPECT_EQ(json["variants"][2]["name"], "balanced");
  EXPECT_EQ(json["variants"][0]["visits"].size(), 8u);
  const auto trace = run_trace(result);
  EXPECT_GT(trace["traceEvents"].size(), 8u * static_cast<std::size_t>(comm.size()));
}

TEST_F(RunPlan, OnlyTheSelectedCells) {
  const ExecutionCase input =
      execution_case(53, {.topology = {comm.size(), 1, comm.size()}, .layers = 4, .micro_batches = 3});
  RunOptions options = small;
  options.layers = "1,3";
  options.micro_batches = "2";
  const RunResult result = run(input, options);
  EXPECT_TRUE(run_passed(result));
  EXPECT_EQ(result.selection.cells(), 2u);
  EXPECT_EQ(result.variants[0].figures.size(), 2u * static_cast<std::size_t>(comm.size()));
}

TEST_F(RunPlan, RefusesWhatDoesNotFit) {
  const ExecutionCase input = execution_case(54, {.topology = {comm.size(), 1, comm.size()}});
  RunOptions options = small;
  options.memory_limit = 1000;
  const Error memory = error_of([&] { run(input, options); });
  EXPECT_EQ(memory.fault(), Fault::environment);
  EXPECT_THAT(memory.what(),
              AllOf(HasSubstr("memory: expected"), HasSubstr("a rank"), HasSubstr("1.00 kB free")));

  const ExecutionCase larger = execution_case(54, {.topology = {2 * comm.size(), 1, 1}});
  EXPECT_EQ(error_of([&] { run(larger, small); }).fault(), Fault::usage);
  options = small;
  options.verify = false;
  options.emulate = true;
  EXPECT_TRUE(run(larger, options).emulated);

  ExecutionCase other = input;
  other.dump.header.num_experts = 9;
  EXPECT_THAT(error_of([&] { run(other, small); }).what(), HasSubstr("num_experts"));
  ExecutionCase changed = input;
  if (!changed.cells.split.empty()) {
    ++changed.cells.split[0].tokens;
    EXPECT_EQ(error_of([&] { run(changed, small); }).fault(), Fault::input);
  }
}

TEST_F(RunPlan, DryRunTouchesNoDevice) {
  const ExecutionCase input = execution_case(55, {.topology = {8, 1, 4}});
  RunOptions options = small;
  options.dry_run = true;
  const RunResult result = run(input, options);
  EXPECT_TRUE(result.backend.empty());
  std::int64_t assignments = 0, planned = 0;
  for (const auto& f : result.variants[0].figures) assignments += f.assignments;
  for (const std::int64_t tokens : input.cells.rank_tokens) planned += tokens;
  EXPECT_EQ(assignments, planned);
  EXPECT_GT(exec::total_bytes(result.memory), 0);
}

}  // namespace
}  // namespace relibra
