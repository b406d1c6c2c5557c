// The contract of lib/exec/transport.h, over MPI and over every backend with networks that is there. Each
// test runs on as many ranks as mpirun starts, in one EP group and, where it divides, in two.
#include "lib/exec/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "lib/base/random.h"
#include "lib/exec/transport_setup.h"
#include "tests/support/backends.h"

namespace relibra::exec {
namespace {

using ::testing::ElementsAre;
using Values = std::vector<std::int32_t>;

std::vector<int> values(const std::vector<RankId>& ranks) {
  std::vector<int> v;
  for (const RankId r : ranks) v.push_back(r.value());
  return v;
}

// The example of channel_ranks: P = 4, D = 2, G = 2, rank 5.
TEST(Channels, RanksOfEachChannel) {
  const Topology t{.ep_size = 4, .ep_groups = 2, .gpus_per_node = 2};
  const auto of = [&](ReplicaDomain domain, Channel channel) {
    return values(channel_ranks(t, domain, channel, RankId(5)));
  };
  EXPECT_THAT(of(ReplicaDomain::node, Channel::tokens), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(of(ReplicaDomain::node, Channel::weights), ElementsAre(4, 5));
  EXPECT_THAT(of(ReplicaDomain::group, Channel::weights), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(of(ReplicaDomain::node, Channel::homes), ElementsAre(1, 5));
  // A node that holds two groups: the domain is the group.
  const Topology shared{.ep_size = 2, .ep_groups = 2, .gpus_per_node = 4};
  EXPECT_THAT(values(channel_ranks(shared, ReplicaDomain::node, Channel::weights, RankId(3))),
              ElementsAre(2, 3));
  EXPECT_EQ(index_in({RankId(2), RankId(3)}, RankId(3)), 1);
  EXPECT_THROW(index_in({RankId(2)}, RankId(3)), Error);
}

class TransportContract : public ::testing::TestWithParam<const kernels::Backend*> {
 protected:
  TransportContract() { set_up({comm.size(), 1, comm.size()}); }

  void set_up(const Topology& wanted) {
    transport.reset();
    topology = wanted;
    transport = make_transport(comm, device, topology, ReplicaDomain::node, {.timeout_seconds = 20});
  }
  Buffer upload_values(const Values& values) { return upload(stream, std::span<const std::int32_t>(values)); }
  Values download_values(const Buffer& buffer) {
    return download<std::int32_t>(stream, buffer.data(), buffer.bytes() / sizeof(std::int32_t));
  }
  Buffer empty(std::size_t count) { return Buffer(device, count * sizeof(std::int32_t)); }
  RankId me() const { return RankId(comm.rank()); }
  RankId right() const { return RankId((comm.rank() + 1) % comm.size()); }
  RankId left() const { return RankId((comm.rank() + comm.size() - 1) % comm.size()); }
  void exchange(Channel channel, const std::vector<Round>& rounds) {
    transport->wait(transport->begin(channel, rounds, stream.handle()), stream.handle());
  }

  const Comm comm = Comm::world();
  Device device{*GetParam(), choose_device(comm, *GetParam())};
  Stream stream{device};
  Topology topology;
  std::unique_ptr<Transport> transport;
};

TEST_P(TransportContract, EveryPairOfRanksExchangesItsOwnSizes) {
  // From r to q go 1 + r + 2q values 100r + q; nothing where r + q is a multiple of 3.
  const auto count = [](RankId from, RankId to) {
    return (from.value() + to.value()) % 3 == 0 ? 0u
                                                : static_cast<std::size_t>(1 + from.value() + 2 * to.value());
  };
  std::vector<Buffer> out, in;
  Round round;
  for (RankId r : all<RankId>(comm.size())) {
    out.push_back(upload_values(Values(count(me(), r), 100 * me().value() + r.value())));
    in.push_back(empty(count(r, me())));
    round.sends.push_back({r, out.back().data(), out.back().bytes()});
    round.receives.push_back({r, in.back().data(), in.back().bytes()});
  }
  exchange(Channel::tokens, {round});
  for (RankId r : all<RankId>(comm.size()))
    EXPECT_EQ(download_values(in[r.index()]), Values(count(r, me()), 100 * r.value() + me().value()));
  transport->finish(stream.handle());
}

TEST_P(TransportContract, MessagesOfAPairMatchInTheOrderOfTheLists) {
  const auto out = upload_values({1, 2, 3});
  const auto in = empty(3);
  const auto* from = out.as<std::int32_t>();
  auto* to = in.as<std::int32_t>();
  const Round round{{{right(), from, 4}, {right(), from + 1, 8}}, {{left(), to + 2, 4}, {left(), to, 8}}};
  exchange(Channel::weights, {round});
  EXPECT_EQ(download_values(in), (Values{2, 3, 1}));
  transport->finish(stream.handle());
}

// A chain: rank 0 sends in round 0, and every next rank sends in a later round what it got in the one before.
TEST_P(TransportContract, ARoundPassesOnWhatTheOneBeforeBrought) {
  if (comm.size() < 3) GTEST_SKIP() << "needs 3 ranks";
  const auto data = comm.rank() == 0 ? upload_values({7, 8, 9}) : empty(3);
  std::vector<Round> rounds(2);
  const auto send = [&](int from, int to, Round& round) {
    if (comm.rank() == from) round.sends.push_back({RankId(to), data.data(), data.bytes()});
    if (comm.rank() == to) round.receives.push_back({RankId(from), data.data(), data.bytes()});
  };
  send(0, 1, rounds[0]);
  send(1, 2, rounds[1]);
  exchange(Channel::weights, rounds);
  if (comm.rank() < 3) {
    EXPECT_EQ(download_values(data), (Values{7, 8, 9}));
  }
  transport->finish(stream.handle());
}

// What the sends read is written by work given before begin(), and overwritten by work given after wait().
TEST_P(TransportContract, BatchesAreOrderedWithTheCallersWork) {
  const Buffer out(device, 1024 * sizeof(float)), in(device, 1024 * sizeof(float));
  const auto fill = [&](float value) {
    device.check(device.backend().fill(stream.handle(), out.data(), kernels::Type::float32, value, 1024),
                 "fill");
  };
  for (int step = 0; step < 3; ++step) {
    for (const Channel channel : {Channel::tokens, Channel::weights}) {
      fill(static_cast<float>(10 * step + comm.rank()));
      const Round round{{{right(), out.data(), out.bytes()}}, {{left(), in.data(), in.bytes()}}};
      exchange(channel, {round});
      fill(-1);
      EXPECT_EQ(download<float>(stream, in.data(), 1024),
                std::vector<float>(1024, static_cast<float>(10 * step + left().value())));
    }
    transport->finish(stream.handle());
  }
}

TEST_P(TransportContract, BatchesOfBothChannelsAreInFlightAtOnce) {
  const std::size_t count = 20000;
  Values values(count);
  std::iota(values.begin(), values.end(), comm.rank());
  const auto out = upload_values(values);
  const auto tokens = empty(count), weights = empty(count);
  const auto begin = [&](Channel channel, RankId to, RankId from, const Buffer& in) {
    const Round round{{{to, out.data(), out.bytes()}}, {{from, in.data(), in.bytes()}}};
    return transport->begin(channel, std::span(&round, 1), stream.handle());
  };
  const auto first = begin(Channel::weights, right(), left(), weights);
  const auto second = begin(Channel::tokens, left(), right(), tokens);
  transport->wait(second, stream.handle());
  transport->wait(first, stream.handle());
  EXPECT_EQ(download_values(tokens).front(), right().value());
  EXPECT_EQ(download_values(weights).front(), left().value());
  transport->finish(stream.handle());
  for (const auto ticket : {first, second}) {
    const auto flight = transport->flight(ticket);
    EXPECT_GE(elapsed(device, flight.begun, flight.done), 0.0);
  }
}

TEST_P(TransportContract, ChannelsJoinTheRanksTheySay) {
  if (comm.size() % 2 != 0) GTEST_SKIP() << "needs an even number of ranks";
  set_up({comm.size() / 2, 2, 1});
  for (const Channel channel : {Channel::tokens, Channel::weights, Channel::homes}) {
    const auto members = channel_ranks(topology, ReplicaDomain::node, channel, me());
    const auto out = upload_values({comm.rank()});
    const auto in = empty(members.size());
    Round round;
    for (std::size_t i = 0; i < members.size(); ++i) {
      round.sends.push_back({members[i], out.data(), out.bytes()});
      round.receives.push_back({members[i], in.as<std::int32_t>() + i, 4});
    }
    exchange(channel, {round});
    Values want;
    for (const RankId member : members) want.push_back(member.value());
    EXPECT_EQ(download_values(in), want);
  }
  transport->finish(stream.handle());
}

TEST_P(TransportContract, BarriersAndEmptyBatchesPass) {
  for (int i = 0; i < 3; ++i) {
    transport->barrier(Channel::tokens, stream.handle());
    exchange(Channel::weights, {Round{}, Round{}});
    exchange(Channel::tokens, {});
  }
  transport->poll();
  transport->finish(stream.handle());
}

TEST_P(TransportContract, APeerThatStaysAwayIsAnErrorAfterTheTimeOut) {
  if (comm.size() < 2) GTEST_SKIP() << "needs 2 ranks";
  transport = make_transport(comm, device, topology, ReplicaDomain::node, {.timeout_seconds = 0.5});
  const auto out = upload_values({1}), in = empty(1);
  const auto both_ways = [&] {
    const Round round{{{right(), out.data(), 4}}, {{left(), in.data(), 4}}};
    exchange(Channel::tokens, {round});
    transport->finish(stream.handle());
  };
  both_ways();
  if (comm.rank() == 0) {
    try {
      const Round waits{{}, {{left(), in.data(), 4}}};
      exchange(Channel::tokens, {waits});
      transport->finish(stream.handle());
      FAIL() << "nothing was sent, and something was received";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::environment);
      EXPECT_NE(std::string(error.what()).find("rank 0"), std::string::npos) << error.what();
    }
  }
  transport->abort();
  comm.barrier();
}

// Rank 0 sends to rank 1, which passes on to the others in the second round what it got in the first. Batches
// begun one after the other do not mix, although the first batch's relay sends after the second has begun.
TEST_P(TransportContract, RelaysPassOnWhatTheyGot) {
  if (comm.size() < 2) GTEST_SKIP() << "needs a relay";
  constexpr int kBatches = 3;
  std::vector<Buffer> memory;
  std::vector<Transport::Ticket> tickets;
  for (int b = 0; b < kBatches; ++b) {
    const bool source = comm.rank() == 0;
    memory.push_back(upload_values(std::vector<std::int32_t>(5000, source ? 7 + b : 0)));
    Round rounds[2];
    const auto send = [&](Round& round, int to) {
      round.sends.push_back({RankId(to), memory.back().data(), memory.back().bytes()});
    };
    const auto receive = [&](Round& round, int from) {
      round.receives.push_back({RankId(from), memory.back().data(), memory.back().bytes()});
    };
    if (source) send(rounds[0], 1);
    if (comm.rank() == 1) {
      receive(rounds[0], 0);
      for (int p = 2; p < comm.size(); ++p) send(rounds[1], p);
    }
    if (comm.rank() > 1) receive(rounds[1], 1);
    tickets.push_back(transport->begin(Channel::weights, rounds, stream.handle()));
  }
  for (int b = kBatches; b-- > 0;) transport->wait(tickets[static_cast<std::size_t>(b)], stream.handle());
  for (int b = 0; b < kBatches; ++b)
    EXPECT_EQ(download_values(memory[static_cast<std::size_t>(b)])[4999], 7 + b);
  transport->finish(stream.handle());
}

TEST_P(TransportContract, ASendToItselfNeedsItsReceive) {
  const auto out = upload_values({1});
  Round round;
  round.sends.push_back({RankId(comm.rank()), out.data(), out.bytes()});
  EXPECT_THROW(transport->begin(Channel::tokens, std::span(&round, 1), stream.handle()), Error);
  transport->finish(stream.handle());
}

// Random batches on all channels, several in flight, against what each rank can compute for itself.
TEST_P(TransportContract, ManyBatchesInFlight) {
  Random random(5);  // the same on every rank
  const int world = comm.size();
  struct InFlight {
    Transport::Ticket ticket;
    std::vector<Buffer> out, in;
    std::vector<std::int32_t> expected;
  };
  std::vector<InFlight> flights;
  for (int b = 0; b < 30; ++b) {
    const auto channel = b % 2 ? Channel::weights : Channel::tokens;
    InFlight& flight = flights.emplace_back();
    Round round;
    for (int from = 0; from < world; ++from)
      for (int to = 0; to < world; ++to) {
        const std::size_t length = random.below(4) == 0 ? 0 : random.below(3000);
        const auto value = static_cast<std::int32_t>(random.below(1 << 20));
        if (from == comm.rank()) {
          flight.out.push_back(upload_values(std::vector<std::int32_t>(length, value)));
          round.sends.push_back({RankId(to), flight.out.back().data(), length * 4});
        }
        if (to == comm.rank()) {
          flight.in.push_back(upload_values(std::vector<std::int32_t>(length, -1)));
          flight.expected.push_back(value);
          round.receives.push_back({RankId(from), flight.in.back().data(), length * 4});
        }
      }
    flight.ticket = transport->begin(channel, std::span(&round, 1), stream.handle());
  }
  for (InFlight& flight : flights) {
    transport->wait(flight.ticket, stream.handle());
    for (std::size_t i = 0; i < flight.in.size(); ++i) {
      const auto got = download_values(flight.in[i]);
      EXPECT_EQ(got, std::vector<std::int32_t>(got.size(), flight.expected[i]));
    }
  }
  transport->finish(stream.handle());
}

std::string name_of(const ::testing::TestParamInfo<const kernels::Backend*>& info) {
  return std::string(info.param->name) + "_" + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Backends, TransportContract, ::testing::ValuesIn(relibra::testing::test_backends()),
                         name_of);

}  // namespace
}  // namespace relibra::exec
