#include "tests/support/cuda_double/communicator.h"

#include <unistd.h>

#include <cstring>
#include <map>
#include <tuple>

namespace cuda_double {
namespace {

constexpr std::int32_t kRefused = -1;  // in place of the processes: two ranks on one device

/// What a rank says of itself when it joins.
struct Joining {
  std::int32_t rank, size, process, device;
  char host[64];
};

struct Leaving {
  std::uint64_t sent;
  std::int32_t aborted;
};

std::string refusal_text;

std::map<int, std::uint64_t>& orders() {
  static auto* counts = new std::map<int, std::uint64_t>;
  return *counts;
}

struct Span {
  std::uint64_t first, last;
};

/// Of the messages taken so far from one device's calls: the receiving call's order, and the span of the
/// sending calls' orders. Both have to rise together, or the two can wait for each other for ever.
using Meetings = std::map<std::uint64_t, Span>;

/// By this device, the other's process and the other's device.
std::map<std::tuple<int, std::int32_t, std::int32_t>, Meetings>& meetings() {
  static auto* all = new std::map<std::tuple<int, std::int32_t, std::int32_t>, Meetings>;
  return *all;
}

std::map<std::uint64_t, std::vector<Joining>>& joining() {
  static auto* all = new std::map<std::uint64_t, std::vector<Joining>>;
  return *all;
}

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <class T>
T value_of(const std::vector<std::byte>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

bool share_a_device(const std::vector<Joining>& ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (ranks[i].device == ranks[j].device && std::strcmp(ranks[i].host, ranks[j].host) == 0) return true;
  return false;
}

void answer(std::uint64_t communicator, const std::vector<Joining>& ranks) {
  std::vector<std::int32_t> processes(ranks.size(), kRefused);
  if (!share_a_device(ranks))
    for (const Joining& one : ranks) processes[static_cast<std::size_t>(one.rank)] = one.process;
  std::vector<std::byte> content(processes.size() * sizeof(std::int32_t));
  std::memcpy(content.data(), processes.data(), content.size());
  for (const Joining& one : ranks)
    post(one.process, {communicator, Kind::members, 0, one.rank, 0, 0, 0, content});
}

std::string pair_text(const ncclComm& comm, int from) {
  return "rank " + std::to_string(comm.rank) + " of " + std::to_string(comm.size) + " from rank " +
         std::to_string(from);
}

void check_order(const ncclComm& comm, const Message& message, std::uint64_t mine) {
  const auto process = comm.process[static_cast<std::size_t>(message.from)];
  Meetings& met = meetings()[{comm.device, process, message.device}];
  const auto [here, added] = met.try_emplace(mine, Span{message.order, message.order});
  here->second.first = std::min(here->second.first, message.order);
  here->second.last = std::max(here->second.last, message.order);
  const auto next = std::next(here);
  if ((here != met.begin() && std::prev(here)->second.last > message.order) ||
      (next != met.end() && next->second.first < message.order))
    violate("a message to " + pair_text(comm, message.from) +
            ": the two ranks made their calls on several communicators in different orders");
}

}  // namespace

UniqueId make_unique_id() {
  static std::uint64_t count = 0;
  const auto process = process_index();
  return {(static_cast<std::uint64_t>(process) << 32) + ++count, process};
}

std::set<ncclComm_t>& communicators() {
  static auto* all = new std::set<ncclComm_t>;
  return *all;
}

std::uint64_t next_order(int device) {
  return ++orders()[device];
}

const std::string& last_refusal() {
  return refusal_text;
}

void Exchange::begin(const Operation& operation) {
  begun = true;
  Access access(operation.who, operation.clock, stream->device);
  for (const Part& part : sends) access.read(part.data, part.bytes);
  for (const Part& part : receives) access.write(part.data, part.bytes);
  access.check_disjoint();
  access.commit();
  for (const Part& part : sends) {
    const auto* data = static_cast<const std::byte*>(part.data);
    post(comm->process[static_cast<std::size_t>(part.peer)], {comm->id.communicator,
                                                              Kind::data,
                                                              comm->rank,
                                                              part.peer,
                                                              part.number,
                                                              order,
                                                              comm->device,
                                                              {data, data + part.bytes}});
  }
}

bool Exchange::receive(const Part& part) {
  const auto message = take(comm->id.communicator, Kind::data, part.peer, comm->rank, part.number);
  if (!message) return false;
  if (message->content.size() != part.bytes)
    violate("message " + std::to_string(part.number) + " to " + pair_text(*comm, part.peer) + ": " +
            std::to_string(message->content.size()) + " bytes were sent and " + std::to_string(part.bytes) +
            " are received");
  check_order(*comm, *message, order);
  std::memcpy(part.data, message->content.data(), part.bytes);
  return true;
}

bool Exchange::step(const Operation& operation) {
  if (!begun) begin(operation);
  std::erase_if(receives, [&](const Part& part) { return receive(part); });
  if (!receives.empty()) return false;
  done = true;
  return true;
}

ncclComm_t join_communicator(const UniqueId& id, int size, int rank) {
  if (size < 1 || rank < 0 || rank >= size)
    violate("ncclCommInitRankConfig: rank " + std::to_string(rank) + " of " + std::to_string(size));
  auto* made = new ncclComm{.id = id, .size = size, .rank = rank, .device = current_device()};
  made->sent.resize(static_cast<std::size_t>(size));
  made->received.resize(static_cast<std::size_t>(size));
  communicators().insert(made);
  Joining mine{rank, size, process_index(), current_device(), {}};
  gethostname(mine.host, sizeof mine.host - 1);
  post(id.process, {id.communicator, Kind::join, rank, 0, 0, 0, 0, bytes_of(mine)});
  return made;
}

void serve_joins() {
  for (const std::uint64_t communicator : waiting(Kind::join)) {
    auto& ranks = joining()[communicator];
    for (const Message& message : take_all(communicator, Kind::join)) {
      const auto one = value_of<Joining>(message.content);
      for (const Joining& other : ranks) {
        if (other.rank == one.rank)
          violate("ncclCommInitRankConfig: two ranks " + std::to_string(one.rank) + " by one unique id");
        if (other.size != one.size) violate("ncclCommInitRankConfig: ranks that disagree about their number");
      }
      ranks.push_back(one);
    }
    if (static_cast<int>(ranks.size()) == ranks.front().size) answer(communicator, ranks);
  }
}

void try_join(ncclComm& comm) {
  const auto message = take(comm.id.communicator, Kind::members, 0, comm.rank, 0);
  if (!message) return;
  comm.process.resize(static_cast<std::size_t>(comm.size));
  std::memcpy(comm.process.data(), message->content.data(), message->content.size());
  comm.state = ncclComm::State::ready;
  if (comm.process.front() != kRefused) return;
  refusal_text = "Duplicate GPU detected : two ranks of a communicator on one device";
  comm.async_error = ncclInvalidUsage;
}

void begin_finalize(ncclComm& comm) {
  if (comm.state != ncclComm::State::ready || comm.pending)
    violate("ncclCommFinalize on a communicator whose last call was not waited for");
  comm.state = ncclComm::State::finalizing;
  for (int peer = 0; peer < comm.size; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    post(comm.process[p],
         {comm.id.communicator, Kind::leave, comm.rank, peer, 0, 0, 0, bytes_of(Leaving{comm.sent[p], 0})});
  }
}

void try_finalize(ncclComm& comm) {
  for (const Message& message : take_all(comm.id.communicator, Kind::leave)) {
    if (message.to != comm.rank) {  // of another rank in this process
      post(process_index(), message);
      continue;
    }
    const auto leaving = value_of<Leaving>(message.content);
    const auto from = static_cast<std::size_t>(message.from);
    if (leaving.aborted) comm.async_error = ncclRemoteError;
    if (!leaving.aborted && leaving.sent != comm.received[from])
      violate("rank " + std::to_string(message.from) + " sent " + std::to_string(leaving.sent) +
              " messages to rank " + std::to_string(comm.rank) + " of " + std::to_string(comm.size) +
              ", which received " + std::to_string(comm.received[from]));
    comm.process[from] = kRefused;  // has left
  }
  for (const std::int32_t process : comm.process)
    if (process != kRefused) return;
  for (const auto& exchange : comm.launched)
    if (!exchange->done) return;
  comm.state = ncclComm::State::finalized;
}

void abandon(ncclComm& comm) {
  end_everything();
  for (const auto& exchange : comm.launched) exchange->comm = nullptr;
  if (comm.pending) comm.pending->stream->busy_call = nullptr;
  if (comm.state == ncclComm::State::joining || comm.async_error == ncclInvalidUsage) return;
  for (int peer = 0; peer < comm.size; ++peer)
    if (comm.process[static_cast<std::size_t>(peer)] != kRefused)
      post(comm.process[static_cast<std::size_t>(peer)],
           {comm.id.communicator, Kind::leave, comm.rank, peer, 0, 0, 0, bytes_of(Leaving{0, 1})});
}

void forget(ncclComm_t comm) {
  communicators().erase(comm);
  delete comm;
}

std::string communicator_leaks() {
  return communicators().empty() ? "" : std::to_string(communicators().size()) + " communicators\n";
}

void reset_communicators() {
  for (const ncclComm_t comm : communicators()) delete comm;
  communicators().clear();
  meetings().clear();
  joining().clear();
}

}  // namespace cuda_double
