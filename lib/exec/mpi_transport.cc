#include "lib/exec/mpi_transport.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "lib/base/timer.h"

namespace relibra::exec {
namespace {

constexpr std::size_t kMessageBytes = std::size_t{1} << 30;  // below the int limit of an MPI count
constexpr int kTags = 1 << 14;                               // MPI promises at least 32767
constexpr int kMaxRounds = 2;

template <class Call>
void in_pieces(std::size_t bytes, Call&& call) {
  for (std::size_t at = 0; at < bytes; at += kMessageBytes)
    call(at, static_cast<int>(std::min(kMessageBytes, bytes - at)));
}

bool all_done(std::vector<MPI_Request>& requests) {
  int done = 0;
  check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
            "MPI_Testall");
  return done != 0;
}

}  // namespace

MpiTransport::MpiTransport(const Comm& comm, const Device& device, const Topology& topology,
                           ReplicaDomain domain, const TransportOptions& options)
    : world_(comm), device_(device), rank_(comm.rank()), options_(options) {
  for (const Channel channel : {Channel::tokens, Channel::weights, Channel::homes}) {
    Member& mine = member(channel);
    mine.ranks = channel_ranks(topology, domain, channel, rank_);
    check_mpi(MPI_Comm_split(comm.handle(), mine.ranks.front().value(), comm.rank(), &mine.comm),
              "MPI_Comm_split");
  }
}

MpiTransport::~MpiTransport() {
  abort();
  for (Member& mine : members_)
    if (mine.comm != MPI_COMM_NULL) MPI_Comm_free(&mine.comm);
}

void MpiTransport::start_new_step() {
  if (!finished_) return;
  batches_.clear();
  finished_ = false;
}

Transport::Ticket MpiTransport::begin(Channel channel, std::span<const Round> rounds,
                                      kernels::Stream* after) {
  start_new_step();
  const int tag = static_cast<int>(member(channel).begun++ % (kTags / kMaxRounds)) * kMaxRounds;
  batches_.push_back(std::make_unique<Batch>(
      Batch{channel, tag, {rounds.begin(), rounds.end()}, 0, {}, {}, false, Event(device_), Event(device_)}));
  Batch& batch = *batches_.back();
  batch.begun.record(after);
  post_receives(batch);
  if (!batch.rounds.empty()) post_sends(batch);
  open_.push_back(static_cast<Ticket>(batches_.size()) - 1);
  advance(batch);
  return static_cast<Ticket>(batches_.size()) - 1;
}

void MpiTransport::post_receives(Batch& batch) {
  const Member& mine = member(batch.channel);
  for (std::size_t r = 0; r < batch.rounds.size(); ++r) {
    auto& requests = batch.receives.emplace_back();
    for (const Incoming& in : batch.rounds[r].receives)
      if (in.from != rank_)
        in_pieces(in.bytes, [&](std::size_t at, int bytes) {
          check_mpi(
              MPI_Irecv(static_cast<std::byte*>(in.data) + at, bytes, MPI_BYTE, index_in(mine.ranks, in.from),
                        batch.tag + static_cast<int>(r), mine.comm, &requests.emplace_back()),
              "MPI_Irecv");
        });
  }
}

/// Sends of the current round; what a rank sends to itself is copied.
void MpiTransport::post_sends(Batch& batch) {
  const Member& mine = member(batch.channel);
  const Round& round = batch.rounds[batch.round];
  auto to_self = round.receives.begin();
  for (const Outgoing& out : round.sends) {
    if (out.to == rank_) {
      to_self =
          std::find_if(to_self, round.receives.end(), [&](const Incoming& in) { return in.from == rank_; });
      if (to_self == round.receives.end() || to_self->bytes != out.bytes)
        throw_environment({.where = "transport", .found = "a send to itself without its receive"});
      if (out.bytes) std::memcpy(to_self->data, out.data, out.bytes);
      ++to_self;
      continue;
    }
    in_pieces(out.bytes, [&](std::size_t at, int bytes) {
      check_mpi(MPI_Isend(static_cast<const std::byte*>(out.data) + at, bytes, MPI_BYTE,
                          index_in(mine.ranks, out.to), batch.tag + static_cast<int>(batch.round), mine.comm,
                          &batch.sends.emplace_back()),
                "MPI_Isend");
    });
  }
}

void MpiTransport::advance(Batch& batch) {
  if (batch.complete) return;
  while (batch.round < batch.rounds.size() && all_done(batch.receives[batch.round])) {
    if (batch.round + 1 == batch.rounds.size()) break;
    ++batch.round;
    post_sends(batch);
  }
  const bool received = batch.rounds.empty() ||
                        (batch.round + 1 == batch.rounds.size() && all_done(batch.receives[batch.round]));
  if (!received || !all_done(batch.sends)) return;
  batch.complete = true;
  batch.done.record(nullptr);
}

void MpiTransport::poll() {
  for (const Ticket ticket : open_) advance(batch(ticket));
  std::erase_if(open_, [&](Ticket ticket) { return batch(ticket).complete; });
}

template <class Done>
void MpiTransport::wait_until(Done&& done, const char* what) {
  const Timer timer;
  const double spin_seconds = options_.oversubscribed ? 0 : 1e-3;
  while (!done()) {
    poll();
    if (done()) return;
    if (timer.seconds() > spin_seconds) std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (timer.seconds() > options_.timeout_seconds)
      throw_environment({.where = std::string("rank ") + std::to_string(rank_.value()) + ", " + what,
                         .found = "no answer from another rank for " +
                                  std::to_string(static_cast<int>(options_.timeout_seconds)) + " s",
                         .advice = "look for a rank that stopped; --timeout raises the limit"});
  }
}

void MpiTransport::wait(Ticket ticket, kernels::Stream*) {
  wait_until([&] { return batch(ticket).complete; }, "waiting for a transfer");
}

void MpiTransport::barrier(Channel channel, kernels::Stream*) {
  std::vector<MPI_Request> request(1);
  check_mpi(MPI_Ibarrier(member(channel).comm, request.data()), "MPI_Ibarrier");
  wait_until([&] { return all_done(request); }, "waiting for the slowest rank");
}

Transport::Flight MpiTransport::flight(Ticket ticket) const {
  const Batch& of_ticket = *batches_.at(static_cast<std::size_t>(ticket));
  return {of_ticket.begun.handle(), of_ticket.done.handle()};
}

void MpiTransport::finish(kernels::Stream*) {
  wait_until([&] { return open_.empty(); }, "waiting for the end of the step");
  finished_ = true;
}

void MpiTransport::abort() noexcept {
  for (const Ticket ticket : open_) {
    Batch& of_ticket = batch(ticket);
    const auto drop = [](std::vector<MPI_Request>& requests, bool cancel) {
      for (MPI_Request& request : requests)
        if (request != MPI_REQUEST_NULL) {
          if (cancel) MPI_Cancel(&request);
          MPI_Request_free(&request);
        }
    };
    for (auto& receives : of_ticket.receives) drop(receives, true);
    drop(of_ticket.sends, false);
  }
  open_.clear();
}

}  // namespace relibra::exec
