#include "lib/exec/nccl_transport.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "lib/base/timer.h"

namespace relibra::exec {

NcclTransport::NcclTransport(const Device& device, const Topology& topology, ReplicaDomain domain,
                             RankId rank, const ChannelIds& ids, const TransportOptions& options)
    : device_(device), rank_(rank), options_(options), side_(device), reached_(device), stream_end_(device) {
  if (!backend().network_create)
    throw_environment({.where = std::string(backend().name) + " backend",
                       .found = "no transfers between devices",
                       .advice = "run with --backend cpu"});
  try {
    for (const Channel channel : {Channel::tokens, Channel::weights, Channel::homes}) {
      Member& mine = member(channel);
      mine.ranks = channel_ranks(topology, domain, channel, rank);
      const std::vector<std::int32_t> zeros(mine.ranks.size() + 1);
      mine.tokens = upload(side_, std::span<const std::int32_t>(zeros));
      if (mine.ranks.size() > 1)
        device.check(
            backend().network_create(device.handle(), &ids[static_cast<std::size_t>(channel)],
                                     static_cast<std::int32_t>(mine.ranks.size()), index_in(mine.ranks, rank),
                                     options.timeout_seconds, &mine.network),
            "network_create");
    }
  } catch (...) {
    abort();
    throw;
  }
}

NcclTransport::~NcclTransport() {
  // Peers may be gone, and a clean end would wait for them.
  if (!finished_ || std::uncaught_exceptions() > 0) abort();
  for (Member& mine : members_)
    if (mine.network) backend().network_destroy(mine.network);
}

void NcclTransport::start_new_step() {
  if (finished_) begun_ = passed_ = 0;
  finished_ = false;
}

Transport::Ticket NcclTransport::begin(Channel channel, std::span<const Round> rounds,
                                       kernels::Stream* after) {
  start_new_step();
  if (begun_ == batches_.size()) batches_.emplace_back(device_);
  Batch& batch = batches_[begun_];
  batch.stream = channel == Channel::tokens ? after : side_.handle();
  if (batch.stream != after) {
    reached_.record(after);
    device_.check(backend().stream_wait(batch.stream, reached_.handle()), "stream_wait");
  }
  batch.begun.record(batch.stream);
  for (const Round& round : rounds) run_round(member(channel), round, batch.stream);
  batch.done.record(batch.stream);
  return static_cast<Ticket>(begun_++);
}

void NcclTransport::run_round(const Member& mine, const Round& round, kernels::Stream* stream) {
  std::vector<kernels::NetworkSend> sends;
  std::vector<kernels::NetworkReceive> receives;
  auto to_self = round.receives.begin();
  for (const Outgoing& out : round.sends) {
    if (out.bytes == 0) continue;
    if (out.to != rank_) {
      sends.push_back({index_in(mine.ranks, out.to), out.data, out.bytes});
      continue;
    }
    to_self = std::find_if(to_self, round.receives.end(),
                           [&](const Incoming& in) { return in.from == rank_ && in.bytes > 0; });
    if (to_self == round.receives.end() || to_self->bytes != out.bytes)
      throw_environment({.where = "transport", .found = "a send to itself without its receive"});
    device_.check(backend().copy(stream, to_self->data, out.data, out.bytes), "copy");
    ++to_self;
  }
  for (const Incoming& in : round.receives)
    if (in.bytes > 0 && in.from != rank_)
      receives.push_back({index_in(mine.ranks, in.from), in.data, in.bytes});
  if (sends.empty() && receives.empty()) return;
  device_.check(
      backend().network_exchange(mine.network, stream, sends.data(), static_cast<std::int32_t>(sends.size()),
                                 receives.data(), static_cast<std::int32_t>(receives.size())),
      "network_exchange");
}

void NcclTransport::wait(Ticket ticket, kernels::Stream* then) {
  const Batch& batch = batches_.at(static_cast<std::size_t>(ticket));
  if (batch.stream != then) device_.check(backend().stream_wait(then, batch.done.handle()), "stream_wait");
}

void NcclTransport::barrier(Channel channel, kernels::Stream* stream) {
  start_new_step();
  const Member& mine = member(channel);
  Round round;
  auto* tokens = mine.tokens.as<std::int32_t>();
  for (std::size_t i = 0; i < mine.ranks.size(); ++i) {
    if (mine.ranks[i] == rank_) continue;
    round.sends.push_back({mine.ranks[i], tokens, sizeof(std::int32_t)});
    round.receives.push_back({mine.ranks[i], tokens + 1 + i, sizeof(std::int32_t)});
  }
  run_round(mine, round, stream);
}

void NcclTransport::poll() {
  for (const Member& mine : members_)
    if (mine.network) device_.check(backend().network_poll(mine.network), "network_poll");
}

Transport::Flight NcclTransport::flight(Ticket ticket) const {
  const Batch& batch = batches_.at(static_cast<std::size_t>(ticket));
  return {batch.begun.handle(), batch.done.handle()};
}

std::size_t NcclTransport::passed_batches() {
  while (passed_ < begun_ && batches_[passed_].done.passed()) ++passed_;
  return passed_;
}

void NcclTransport::finish(kernels::Stream* stream) {
  stream_end_.record(stream);
  Timer since_progress;
  std::size_t seen = passed_batches();
  while (passed_batches() < begun_ || !stream_end_.passed()) {
    poll();
    if (passed_ != seen) since_progress.restart();
    seen = passed_;
    if (since_progress.seconds() > options_.timeout_seconds)
      throw_environment(
          {.where = "rank " + std::to_string(rank_.value()) + ", waiting for a transfer",
           .found = "no progress for " + std::to_string(static_cast<int>(options_.timeout_seconds)) + " s",
           .advice = "look for a rank that stopped; --timeout raises the limit"});
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  finished_ = true;
}

void NcclTransport::abort() noexcept {
  for (Member& mine : members_)
    if (mine.network) backend().network_abort(std::exchange(mine.network, nullptr));
}

}  // namespace relibra::exec
