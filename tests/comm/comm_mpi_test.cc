#include "lib/comm/comm.h"

#include <gtest/gtest.h>

#include "lib/comm/agree.h"

namespace relibra {
namespace {

TEST(Comm, ExchangeSendsListsOfUnequalLength) {
  const Comm comm = Comm::world();
  std::vector<std::vector<int>> send(static_cast<std::size_t>(comm.size()));
  for (int to = 0; to < comm.size(); ++to)
    for (int i = 0; i < comm.rank() + 2 * to; ++i)
      send[static_cast<std::size_t>(to)].push_back(1000 * comm.rank() + 10 * to + i);
  const auto got = comm.exchange(send);
  for (int from = 0; from < comm.size(); ++from) {
    const auto& part = got[static_cast<std::size_t>(from)];
    ASSERT_EQ(part.size(), static_cast<std::size_t>(from + 2 * comm.rank()));
    for (std::size_t i = 0; i < part.size(); ++i)
      EXPECT_EQ(part[i], 1000 * from + 10 * comm.rank() + static_cast<int>(i));
  }
}

TEST(Comm, SumBelowAndGatherAll) {
  const Comm comm = Comm::world();
  EXPECT_EQ(comm.sum_below<std::int64_t>(comm.rank() + 1), std::int64_t{comm.rank()} * (comm.rank() + 1) / 2);
  const std::vector<int> mine(static_cast<std::size_t>(comm.rank()), comm.rank());
  const auto everyone = comm.gather_all(std::span<const int>(mine));
  std::vector<int> expected;
  for (int r = 0; r < comm.size(); ++r) expected.insert(expected.end(), static_cast<std::size_t>(r), r);
  EXPECT_EQ(everyone, expected);
}

TEST(Agree, AllRanksThrowTheErrorOfTheLowestRank) {
  const Comm comm = Comm::world();
  const int last = comm.size() - 1;
  try {
    agreed(comm, [&] {
      if (comm.rank() == last)
        throw_input({.where = "file", .found = "fault of rank " + std::to_string(comm.rank())});
    });
    FAIL() << "no error on rank " << comm.rank();
  } catch (const Error& error) {
    EXPECT_TRUE(error.agreed());
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_EQ(std::string(error.what()), "file: found fault of rank " + std::to_string(last));
  }
}

TEST(Agree, NoErrorNoThrow) {
  EXPECT_NO_THROW(agreed(Comm::world(), [] {}));
}

}  // namespace
}  // namespace relibra
