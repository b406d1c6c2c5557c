#pragma once
// The transport over MPI, for host memory.
#include <deque>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/exec/device.h"
#include "lib/exec/transport.h"

namespace relibra::exec {

/// Rank r of the plan is rank r of `comm`. Streams are those of a backend that runs its work at once, so
/// begin() posts at once and wait() blocks. Open MPI moves large messages only inside calls: poll() is such a
/// call.
class MpiTransport final : public Transport {
 public:
  /// Collective over `comm`, which has as many ranks as the topology.
  MpiTransport(const Comm& comm, const Device& device, const Topology& topology, ReplicaDomain domain,
               const TransportOptions& options);
  ~MpiTransport() override;

  Ticket begin(Channel channel, std::span<const Round> rounds, kernels::Stream* after) override;
  void wait(Ticket ticket, kernels::Stream* then) override;
  void barrier(Channel channel, kernels::Stream* stream) override;
  void poll() override;
  Flight flight(Ticket ticket) const override;
  void finish(kernels::Stream* stream) override;
  void abort() noexcept override;

 private:
  struct Member {
    MPI_Comm comm = MPI_COMM_NULL;
    std::vector<RankId> ranks;
    std::int64_t begun = 0;  ///< batches so far: the tag, since relays send later than they begin
  };
  struct Batch {
    Channel channel;
    int tag = 0;
    std::vector<Round> rounds;
    std::size_t round = 0;  ///< whose sends are posted
    std::vector<std::vector<MPI_Request>> receives;
    std::vector<MPI_Request> sends;
    bool complete = false;
    Event begun, done;
  };

  Member& member(Channel channel) { return members_[static_cast<std::size_t>(channel)]; }
  Batch& batch(Ticket ticket) { return *batches_.at(static_cast<std::size_t>(ticket)); }
  void start_new_step();
  void post_receives(Batch& batch);
  void post_sends(Batch& batch);
  void advance(Batch& batch);
  template <class Done>
  void wait_until(Done&& done, const char* what);

  const Comm& world_;
  const Device& device_;
  RankId rank_;
  TransportOptions options_;
  Member members_[kChannels];
  std::deque<std::unique_ptr<Batch>> batches_;  ///< of this step, by ticket
  std::vector<Ticket> open_;                    ///< not complete
  bool finished_ = false;
};

}  // namespace relibra::exec
