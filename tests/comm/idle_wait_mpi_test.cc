#include "lib/comm/idle_wait.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "lib/base/timer.h"

namespace relibra {
namespace {

const std::function<bool()> kNever = [] { return false; };

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(IdleWait, EndsWhenRankZeroIsReadyAndAsksNoOtherRank) {
  const Comm comm = Comm::world();
  int looks = 0;
  EXPECT_FALSE(wait_idle(
      comm, [&] { return ++looks == 5; }, kNever));
  EXPECT_EQ(looks, comm.root() ? 5 : 0);
}

TEST(IdleWait, OneRankThatIsAskedIsEnoughWhicheverItIs) {
  const Comm comm = Comm::world();
  for (int rank = 0; rank < comm.size(); ++rank)
    EXPECT_TRUE(wait_idle(comm, kNever, [&] { return comm.rank() == rank; })) << "rank " << rank;
}

TEST(IdleWait, ManyThatAreAskedLeaveNothingBehindForTheNextWait) {
  const Comm comm = Comm::world();
  if (comm.size() > 1) {
    EXPECT_TRUE(wait_idle(comm, kNever, [&] { return !comm.root(); }));
  }
  int looks = 0;
  EXPECT_FALSE(wait_idle(
      comm, [&] { return ++looks == 3; }, kNever));
  EXPECT_EQ(looks, comm.root() ? 3 : 0);
}

TEST(IdleWait, AskedAndReadyAtOnceIsAsked) {
  const Comm comm = Comm::world();
  const int last = comm.size() - 1;
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(wait_idle(
        comm, [] { return true; }, [&] { return comm.rank() == last; }));
}

TEST(IdleWait, AFailureToLookIsThrownOnAllRanks) {
  const Comm comm = Comm::world();
  try {
    wait_idle(
        comm, []() -> bool { throw_environment({.where = "folder", .found = "nothing"}); }, kNever);
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(error.agreed());
    EXPECT_EQ(error.fault(), Fault::environment);
    EXPECT_STREQ(error.what(), "folder: found nothing");
  }
}

TEST(IdleWait, RanksSleep) {
  const Comm comm = Comm::world();
  Timer timer;
  const double before = processor_seconds();
  wait_idle(
      comm, [&] { return timer.seconds() > 0.5; }, kNever);
  // A rank that turns in a loop, or yields in one, takes half a second.
  EXPECT_LT(processor_seconds() - before, 0.2);
}

}  // namespace
}  // namespace relibra
