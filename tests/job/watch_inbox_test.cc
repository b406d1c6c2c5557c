#include "lib/job/watch_inbox.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/raw_file.h"

namespace relibra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Inbox : public testing::Test {
 protected:
  void dump(const std::string& name, int step, int shard = 0, int of = 0) {
    test::RawFile raw = test::tiny_dump();
    raw.set("step", step);
    if (of > 0) raw.set("shard", shard), raw.set("num_shards", of);
    raw.write(folder_ / name);
  }
  void text(const std::string& name, const std::string& content = "no HDF5") {
    std::ofstream(folder_ / name) << content;
  }
  /// Writes within one tick of the clock look like one.
  void touch(const std::string& name) {
    std::filesystem::last_write_time(folder_ / name,
                                     std::filesystem::file_time_type::clock::now() + std::chrono::seconds(1));
  }
  WatchInbox inbox(bool done_marker = false, std::vector<StepRecord> records = {}) {
    return WatchInbox(folder_.path(), folder_.path(), done_marker, std::move(records));
  }
  /// "7 a.plan.h5: a.h5" for each pending job, "? ..." where the step is not known.
  static std::vector<std::string> pending(WatchInbox& inbox) {
    inbox.scan();
    std::vector<std::string> lines;
    for (const WatchJob& job : inbox.pending()) {
      std::string& line = lines.emplace_back(job.record.step ? std::to_string(*job.record.step) : "?");
      line += " " + job.record.plan + ":";
      for (const WatchedFile& file : job.record.files) line += " " + file.name;
    }
    return lines;
  }
  static void settle_first(WatchInbox& inbox, StepRecord::Result result = StepRecord::Result::planned,
                           Fault fault = Fault::input) {
    StepRecord record = inbox.pending().front().record;
    record.result = result;
    record.fault = fault;
    inbox.settle(record);
  }
  test::TempFolder folder_;
};

TEST_F(Inbox, DumpsByStepAndNothingElse) {
  dump("b.h5", 1);
  dump("a.h5", 10);
  dump("c.h5", 9);
  dump("gap.h5", 400);
  dump("old.plan.h5", 2);
  dump(".hidden.h5", 3);
  dump("a.h5.partial", 4);
  text("notes.txt");
  std::filesystem::create_directory(folder_ / "folder.h5");
  auto box = inbox();
  EXPECT_THAT(pending(box), ElementsAre("1 b.plan.h5: b.h5", "9 c.plan.h5: c.h5", "10 a.plan.h5: a.h5",
                                        "400 gap.plan.h5: gap.h5"));
}

TEST_F(Inbox, ADumpIsThereOnceItHasItsName) {
  dump("a.h5.tmp", 1);
  auto box = inbox();
  EXPECT_THAT(pending(box), IsEmpty());
  std::filesystem::rename(folder_ / "a.h5.tmp", folder_ / "a.h5");
  EXPECT_THAT(pending(box), ElementsAre("1 a.plan.h5: a.h5"));
}

TEST_F(Inbox, MarkersSayWhatIsComplete) {
  for (const char* name : {"a.h5", "b.h5", "c.h5"}) dump(name, name[0] - 'a');
  text("a.done", "");
  text("c.h5.done", "");
  auto box = inbox(true);
  EXPECT_THAT(pending(box), ElementsAre("0 a.plan.h5: a.h5", "2 c.plan.h5: c.h5"));
  auto without = inbox();
  EXPECT_EQ(pending(without).size(), 3U);
}

TEST_F(Inbox, AStepInShardsWaitsForAllOfThem) {
  dump("x.h5", 7, 2, 3);
  dump("y.h5", 7, 0, 3);
  dump("one.h5", 8, 0, 1);
  auto box = inbox();
  EXPECT_THAT(pending(box), ElementsAre("8 one.plan.h5: one.h5"));
  ASSERT_EQ(box.incomplete().size(), 1U);
  EXPECT_EQ(box.incomplete()[0].step, 7);
  EXPECT_EQ(box.incomplete()[0].shards, 2);
  EXPECT_EQ(box.incomplete()[0].of, 3);
  dump("again.h5", 7, 0, 3);  // shard 0 twice is not three shards
  EXPECT_THAT(pending(box), ElementsAre("8 one.plan.h5: one.h5"));
  dump("w.h5", 7, 1, 3);
  EXPECT_THAT(pending(box),
              ElementsAre("7 step-000007.plan.h5: again.h5 w.h5 x.h5 y.h5", "8 one.plan.h5: one.h5"));
  EXPECT_THAT(box.incomplete(), IsEmpty());
}

TEST_F(Inbox, AFileThatCannotBeReadComesFirstAndIsItsOwnStep) {
  dump("a.h5", -5);
  text("broken.h5");
  auto box = inbox();
  EXPECT_THAT(pending(box), ElementsAre("? broken.plan.h5: broken.h5", "-5 a.plan.h5: a.h5"));
}

TEST_F(Inbox, WhatIsSettledStaysSoUntilAFileChanges) {
  dump("a.h5", 1);
  text("bad.h5");
  auto box = inbox();
  pending(box);
  settle_first(box, StepRecord::Result::failed);
  EXPECT_THAT(pending(box), ElementsAre("1 a.plan.h5: a.h5"));
  settle_first(box);
  text("a.plan.h5");
  EXPECT_THAT(pending(box), IsEmpty());
  EXPECT_EQ(box.records().size(), 2U);
  dump("bad.h5", 3);
  EXPECT_THAT(pending(box), ElementsAre("3 bad.plan.h5: bad.h5"));
  // A new dump under an old name makes the plan that is there an old one.
  dump("new", 1);
  touch("new");
  std::filesystem::rename(folder_ / "new", folder_ / "a.h5");
  EXPECT_THAT(pending(box), ElementsAre("1 a.plan.h5: a.h5", "3 bad.plan.h5: bad.h5"));
}

TEST_F(Inbox, ARestartGoesByRecordsAndByPlansThatAreThere) {
  dump("recorded.h5", 1);
  dump("planned.h5", 2);
  dump("new.h5", 3);
  dump("s0.h5", 4, 0, 2);
  dump("s1.h5", 4, 1, 2);
  text("bad.h5");
  {
    dump("options.h5", 5);
    auto before = inbox();
    pending(before);
    settle_first(before, StepRecord::Result::failed);  // bad.h5
    before.scan();
    settle_first(before);  // recorded.h5
    for (const WatchJob& job : std::vector(before.pending()))
      if (job.record.step == 5) {
        StepRecord record = job.record;
        record.result = StepRecord::Result::failed;
        record.fault = Fault::usage;
        before.settle(record);
      }
    text("planned.plan.h5");
    text("step-000004.plan.h5");
    WatchStatus status{.steps_planned = 41, .steps = before.records()};
    std::ofstream(folder_ / "status.json") << status_json(status).dump();
  }
  const WatchStatus read = read_status(folder_ / "status.json");
  EXPECT_EQ(read.steps_planned, 41);
  auto box = inbox(false, read.steps);
  EXPECT_EQ(box.scan(), 2);  // planned.plan.h5, step-000004.plan.h5
  EXPECT_EQ(box.scan(), 0);
  // What failed by the options of the run before is tried again, a bad file is not.
  EXPECT_THAT(pending(box), ElementsAre("3 new.plan.h5: new.h5", "5 options.plan.h5: options.h5"));
  // A record whose dump has changed does not hold, though its plan is there.
  text("recorded.plan.h5");
  dump("recorded.h5", 6);
  touch("recorded.h5");
  auto changed = inbox(false, read.steps);
  EXPECT_THAT(pending(changed), ElementsAre("3 new.plan.h5: new.h5", "5 options.plan.h5: options.h5",
                                            "6 recorded.plan.h5: recorded.h5"));
}

TEST_F(Inbox, RecordsOfDumpsThatAreGoneAreForgotten) {
  dump("a.h5", 1);
  auto box = inbox();
  pending(box);
  settle_first(box);
  std::filesystem::remove(folder_ / "a.h5");
  box.scan();
  EXPECT_THAT(box.records(), IsEmpty());
}

TEST_F(Inbox, TimeCountsFromTheLookThatFoundTheStepComplete) {
  dump("a.h5", 1);
  auto box = inbox();
  pending(box);
  const Timer timer;
  while (timer.seconds() < 0.03) box.scan();
  EXPECT_GE(box.pending().front().since_complete.seconds(), 0.03);
}

TEST_F(Inbox, AFolderThatIsGoneIsSaid) {
  WatchInbox box(folder_ / "nowhere", folder_.path(), false, {});
  try {
    box.scan();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::environment);
    EXPECT_THAT(error.what(), HasSubstr("nowhere"));
  }
}

TEST_F(Inbox, AStatusThatIsNoneIsRefused) {
  for (const char* content : {"", "{", "{\"host\": 3}", "[1]"}) {
    text("status.json", content);
    EXPECT_THROW(read_status(folder_ / "status.json"), Error) << content;
  }
}

}  // namespace
}  // namespace relibra
