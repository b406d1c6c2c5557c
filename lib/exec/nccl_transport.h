#pragma once
// The transport over a backend's Network (NCCL), for device memory.
#include <array>
#include <deque>
#include <vector>

#include "lib/exec/device.h"
#include "lib/exec/transport.h"

namespace relibra::exec {

/// What makes each channel of a rank one Network; the ranks of a channel hold the same id.
using ChannelIds = std::array<kernels::NetworkId, kChannels>;

/// Tokens travel on the stream that computes, weights and gradients on a second one. One thread gives all
/// calls, in the order of the schedule, so that every rank gives them in the same order (with
/// NCCL_LAUNCH_ORDER_IMPLICIT=1 concurrent communicators then cannot deadlock). Nothing blocks the host but
/// the first messages of a pair and finish(). What a rank sends to itself is copied.
class NcclTransport final : public Transport {
 public:
  /// Collective over the ranks of each channel, without MPI: see make_transport() for a job. Throws
  /// Fault::environment where the backend has no Network or the peers do not come within the time-out.
  NcclTransport(const Device& device, const Topology& topology, ReplicaDomain domain, RankId rank,
                const ChannelIds& ids, const TransportOptions& options);
  /// Waits for peers only where the last step was finished; otherwise as abort().
  ~NcclTransport() override;

  Ticket begin(Channel channel, std::span<const Round> rounds, kernels::Stream* after) override;
  void wait(Ticket ticket, kernels::Stream* then) override;
  void barrier(Channel channel, kernels::Stream* stream) override;
  void poll() override;
  Flight flight(Ticket ticket) const override;
  void finish(kernels::Stream* stream) override;
  void abort() noexcept override;

 private:
  struct Member {
    kernels::Network* network = nullptr;  ///< null where the channel has one rank
    std::vector<RankId> ranks;
    Buffer tokens;  ///< of the barrier: one int32 out, one a rank in
  };
  struct Batch {
    explicit Batch(const Device& device) : begun(device), done(device) {}
    kernels::Stream* stream = nullptr;
    Event begun, done;
  };

  Member& member(Channel channel) { return members_[static_cast<std::size_t>(channel)]; }
  const kernels::Backend& backend() const { return device_.backend(); }
  void run_round(const Member& member, const Round& round, kernels::Stream* stream);
  std::size_t passed_batches();

  void start_new_step();

  const Device& device_;
  RankId rank_;
  TransportOptions options_;
  Member members_[kChannels];
  Stream side_;    ///< of weights and homes
  Event reached_;  ///< how far `after` was at a begin()
  Event stream_end_;
  std::deque<Batch> batches_;  ///< by ticket; kept from step to step
  std::size_t begun_ = 0;      ///< batches of this step
  std::size_t passed_ = 0;     ///< of them, known to be complete
  bool finished_ = true;
};

}  // namespace relibra::exec
