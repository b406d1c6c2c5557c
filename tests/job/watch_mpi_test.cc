#include "lib/job/watch.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/dump_file.h"
#include "io/plan_file.h"
#include "lib/base/timer.h"
#include "lib/comm/agree.h"
#include "lib/job/check.h"
#include "tests/support/dumps.h"
#include "tests/support/raw_file.h"

namespace relibra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Watch : public testing::Test {
 protected:
  Watch() {
    options_.folder = folder_.path();
    options_.once = true;
    options_.plan = {.topology = {.ep_size = 4, .gpus_per_node = 2},
                     .effort = 300,
                     .move_cost = 0,
                     .pack = {.micro_batches = 2}};
  }

  void dump(const std::string& name, int step, int experts = 16) {
    auto source = test::random_dump({.step = step,
                                     .experts = experts,
                                     .rows = {50, 20, 60, 70, 80, 10, 90, 100},
                                     .seed = static_cast<std::uint64_t>(step)});
    io::write_dump(comm_, source, folder_ / name, {});
  }
  void text(const std::string& name, const std::string& content = "no HDF5") {
    if (comm_.root()) std::ofstream(folder_ / name) << content;
    comm_.barrier();
  }
  void run() {
    said_.clear();
    watch(comm_, options_, asked_,
          {.say = [&](const std::string& line) { said_.push_back(line); },
           .status = [](const std::string&) {},
           .progress =
               [&](std::string_view phase, double done) {
                 if (at_phase_) at_phase_(phase, done);
               }});
    comm_.barrier();
  }
  nlohmann::json status() { return nlohmann::json::parse(std::ifstream(folder_ / "status.json")); }
  Plan plan(const std::string& name) { return io::PlanFile(comm_, folder_ / name).plan(); }
  /// Broken rules of a plan whose plan before it is the second one, or none.
  std::int64_t broken(const std::string& name, const std::string& dump_name, const std::string& before) {
    const io::PlanFile file(comm_, folder_ / name);
    const auto source = io::open_dump(comm_, {folder_ / dump_name});
    const Plan previous = before.empty() ? Plan{} : plan(before);
    CheckOptions options;
    options.previous = before.empty() ? PreviousKnown{PreviousKnown::Kind::none, nullptr}
                                      : PreviousKnown{PreviousKnown::Kind::plan, &previous};
    return check_plan(comm_, *source, view_of(file), options).broken_count;
  }

  const Comm comm_ = Comm::world();
  test::TempFolder folder_;
  WatchOptions options_;
  std::function<bool()> asked_ = [] { return false; };
  std::function<void(std::string_view, double)> at_phase_;
  std::vector<std::string> said_;
};

TEST_F(Watch, EachStepStartsFromThePlanBefore) {
  dump("c.h5", 9);
  dump("a.h5", 3);
  dump("b.h5", 4);
  run();
  EXPECT_EQ(broken("a.plan.h5", "a.h5", ""), 0);
  EXPECT_EQ(broken("b.plan.h5", "b.h5", "a.plan.h5"), 0);
  EXPECT_EQ(broken("c.plan.h5", "c.h5", "b.plan.h5"), 0);
  EXPECT_NE(plan("b.plan.h5").placement, plan("a.plan.h5").placement);
  const auto told = status();
  EXPECT_EQ(told["state"], "ended");
  EXPECT_EQ(told["steps_planned"], 3);
  EXPECT_EQ(told["last"]["step"], 9);
  EXPECT_EQ(told["last"]["plan"], "c.plan.h5");
  EXPECT_GT(told["last"]["latency_seconds"], 0);
  EXPECT_GT(told["last"]["skew_before"], told["last"]["skew_after"]);
  EXPECT_EQ(told["ranks"], comm_.size());
  EXPECT_THAT(told["errors"], IsEmpty());
}

TEST_F(Watch, ARestartGoesOnFromTheNewestPlanAndRepeatsNothing) {
  dump("a.h5", 1);
  dump("b.h5", 2);
  run();
  std::filesystem::file_time_type time;
  if (comm_.root()) time = std::filesystem::last_write_time(folder_ / "b.plan.h5");
  dump("c.h5", 3);
  options_.previous = folder_ / "a.plan.h5";  // only for a folder without plans
  run();
  EXPECT_EQ(broken("c.plan.h5", "c.h5", "b.plan.h5"), 0);
  EXPECT_NE(broken("c.plan.h5", "c.h5", "a.plan.h5"), 0);
  if (comm_.root()) {
    EXPECT_EQ(std::filesystem::last_write_time(folder_ / "b.plan.h5"), time);
    EXPECT_EQ(status()["steps_planned"], 3);
  }
}

TEST_F(Watch, ThePreviousPlanOfTheCommandIsForTheFirstStep) {
  dump("a.h5", 1);
  dump("b.h5", 2);
  run();
  comm_.barrier();
  options_.previous = folder_ / "a.plan.h5";
  options_.plans = folder_ / "out";
  if (comm_.root()) std::filesystem::rename(folder_ / "a.h5", folder_ / "a.kept");
  comm_.barrier();
  run();
  EXPECT_EQ(plan("out/b.plan.h5").previous, plan("a.plan.h5").placement);
}

TEST_F(Watch, ABadStepIsSaidAndSkippedAndTriedAgainOnceItsFileChanges) {
  dump("a.h5", 1);
  text("bad.h5");
  dump("b.h5", 2, 18);  // not the experts of the plan before
  dump("c.h5", 3);
  run();
  EXPECT_EQ(broken("c.plan.h5", "c.h5", "a.plan.h5"), 0);
  auto told = status();
  ASSERT_EQ(told["errors"].size(), 2U);
  EXPECT_THAT(told["errors"][0]["error"].get<std::string>(), HasSubstr("bad.h5"));
  EXPECT_EQ(told["errors"][1]["step"], 2);
  EXPECT_THAT(told["errors"][1]["error"].get<std::string>(), HasSubstr("experts"));
  if (comm_.root()) {
    EXPECT_THAT(said_[0], HasSubstr("skipped"));
  }
  dump("bad.h5", 4);
  run();
  EXPECT_EQ(broken("bad.plan.h5", "bad.h5", "c.plan.h5"), 0);
  EXPECT_EQ(status()["errors"].size(), 1U);
  EXPECT_EQ(status()["steps_planned"], 3);
}

TEST_F(Watch, AFailureOfTheDiskEndsIt) {
  dump("a.h5", 1);
  options_.plans = folder_ / "out";
  options_.status = folder_ / "status.json";
  at_phase_ = [&](std::string_view phase, double) {
    if (comm_.root() && phase == "reorder") std::filesystem::remove_all(options_.plans);
  };
  try {
    run();
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(error.agreed());
    EXPECT_EQ(error.fault(), Fault::environment);
  }
  comm_.barrier();
  EXPECT_EQ(status()["state"], "failed");
  EXPECT_THAT(status()["reason"].get<std::string>(), HasSubstr("out"));
  // The step is not at fault: it is planned after a restart.
  at_phase_ = nullptr;
  comm_.barrier();
  run();
  EXPECT_EQ(broken("out/a.plan.h5", "a.h5", ""), 0);
}

TEST_F(Watch, AskedOnOneRankItFinishesTheStepAtHandOnAll) {
  dump("a.h5", 1);
  dump("b.h5", 2);
  options_.once = false;
  bool asked = false;
  at_phase_ = [&](std::string_view phase, double) {
    if (phase == "reorder" && comm_.rank() == comm_.size() - 1) asked = true;
  };
  asked_ = [&] { return asked; };
  run();
  EXPECT_EQ(broken("a.plan.h5", "a.h5", ""), 0);
  if (comm_.root()) {
    EXPECT_FALSE(std::filesystem::exists(folder_ / "b.plan.h5"));
  }
  EXPECT_EQ(status()["state"], "ended");
}

TEST_F(Watch, EndsAfterStepsPlannedOrSkippedOrWithoutAny) {
  dump("a.h5", 1);
  dump("b.h5", 2);
  text("bad.h5");
  options_.once = false;
  options_.steps = 2;
  run();
  if (comm_.root()) {
    EXPECT_TRUE(std::filesystem::exists(folder_ / "a.plan.h5"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "b.plan.h5"));
  }
  options_.steps = 0;
  options_.idle_exit = 0.3;
  const Timer timer;
  run();
  EXPECT_GT(timer.seconds(), 0.3);
  EXPECT_EQ(broken("b.plan.h5", "b.h5", "a.plan.h5"), 0);
}

TEST_F(Watch, AStepOverItsBudgetKeepsTheHomesWithoutCopies) {
  dump("a.h5", 1);
  run();
  dump("b.h5", 2);
  options_.plan.time_budget = 1e-6;
  run();
  EXPECT_EQ(plan("b.plan.h5").placement, plan("a.plan.h5").placement);
  EXPECT_EQ(broken("b.plan.h5", "b.h5", "a.plan.h5"), 0);
  EXPECT_EQ(status()["last"]["copies"], 0);
  EXPECT_EQ(status()["steps"][1]["result"], "fell back");
}

TEST_F(Watch, WhatAKilledRunLeftIsRemoved) {
  text(".a.plan.h5.elsewhere.12.partial");
  text(".b.plan.h5.elsewhere.13.partial");
  text("status.json", R"({"host": "elsewhere", "pid": 12, "steps_planned": 5, "steps": []})");
  run();
  if (comm_.root()) {
    EXPECT_THAT(folder_.files(), ElementsAre(".b.plan.h5.elsewhere.13.partial", "status.json"));
  }
  comm_.barrier();
  EXPECT_EQ(status()["steps_planned"], 5);
}

TEST_F(Watch, AStatusThatCannotBeReadIsAWarning) {
  dump("a.h5", 1);
  text("status.json", "{");
  run();
  if (comm_.root()) {
    EXPECT_THAT(said_[0], HasSubstr("status.json"));
  }
  EXPECT_EQ(broken("a.plan.h5", "a.h5", ""), 0);
}

TEST_F(Watch, MetricsLieBesideThePlan) {
  dump("a.h5", 1);
  options_.metrics = true;
  options_.plans = folder_ / "out";
  run();
  const auto document = nlohmann::json::parse(std::ifstream(folder_ / "out/a.metrics.json"));
  EXPECT_FALSE(document["overall"].is_null());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/status.json"));
}

TEST_F(Watch, WrongFromTheStartIsRefusedAtOnce) {
  const auto refusal = [&](Fault fault) -> std::string {
    try {
      run();
    } catch (const Error& error) {
      EXPECT_TRUE(error.agreed());
      EXPECT_EQ(error.fault(), fault);
      return error.what();
    }
    return "no error";
  };
  dump("a.h5", 1);
  run();
  options_.plan.topology = {.ep_size = 8, .gpus_per_node = 2};
  EXPECT_THAT(refusal(Fault::usage), HasSubstr("--ep-size"));
  options_.plan.topology = {.ep_size = 4, .gpus_per_node = 3};
  EXPECT_THAT(refusal(Fault::usage), HasSubstr("--gpus-per-node"));
  options_.plan.topology = {.ep_size = 4, .gpus_per_node = 2};
  options_.folder = folder_ / "nowhere";
  EXPECT_THAT(refusal(Fault::input), HasSubstr("nowhere"));
}

}  // namespace
}  // namespace relibra
