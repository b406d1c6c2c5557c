#pragma once
// Transfers between the ranks of a plan while a step runs. Both sides know every size beforehand, so there is
// nothing but sends and receives. Two implementations: MPI on host memory (mpi_transport.h) and a backend's
// Network on device memory (nccl_transport.h). The same contract tests run on both.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "lib/base/ids.h"
#include "lib/model/plan.h"

namespace relibra::exec {

/// Who talks to whom. Each channel of a rank is a communicator of its own.
enum class Channel {
  tokens,   ///< the P ranks of an EP group: rows of tokens, and experts that move between steps
  weights,  ///< the ranks of a replica domain: weights of copies out, their gradients back
  homes,    ///< the D homes of an expert: the ranks with one EP rank, one in each group
};
inline constexpr int kChannels = 3;

/// Members of a rank's communicator, ascending. Example: P = 4, D = 2, G = 2, domain "node", rank 5: tokens
/// 4 5 6 7, weights 4 5, homes 1 5.
std::vector<RankId> channel_ranks(const Topology& topology, ReplicaDomain domain, Channel channel,
                                  RankId rank);

/// Position of `rank` in such a list. Throws Fault::environment where it is not there.
int index_in(const std::vector<RankId>& members, RankId rank);

struct Outgoing {
  RankId to;
  const void* data = nullptr;
  std::size_t bytes = 0;  ///< 0 is legal: nothing is sent
};
struct Incoming {
  RankId from;
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Messages of a pair of ranks are matched in the order of the lists. A rank may send to itself.
struct Round {
  std::vector<Outgoing> sends;
  std::vector<Incoming> receives;
};

struct TransportOptions {
  double timeout_seconds = 60;  ///< no progress for that long is a lost peer
  /// More threads than cores: a waiting process sleeps at once, so that those it waits for can run. Else it
  /// spins for a millisecond first.
  bool oversubscribed = false;
};

class Transport {
 public:
  /// One batch in flight; of the transport that gave it.
  using Ticket = std::int64_t;

  virtual ~Transport() = default;

  /// Begins a batch. Round i+1's sends start when this rank's receives of round i are complete: that is how a
  /// relay passes on what it got. What the sends read has been written, and what the receives overwrite has
  /// been read, when `after` has done the work given to it so far. Buffers stay untouched until wait().
  ///
  /// All ranks of a channel begin the same batches in the same order, with as many rounds, also where a rank
  /// has nothing to send or receive. Across channels the order is the same on all ranks too.
  virtual Ticket begin(Channel channel, std::span<const Round> rounds, kernels::Stream* after) = 0;

  /// Work given to `then` after this sees what was received and may overwrite what was sent. On the host this
  /// blocks; on a device it only orders streams. A ticket may be waited for once a stream, before finish().
  /// Throws Fault::environment where a peer is lost or the time-out passes.
  virtual void wait(Ticket ticket, kernels::Stream* then) = 0;

  /// Work given to `stream` after this runs when all ranks of the channel have come here.
  virtual void barrier(Channel channel, kernels::Stream* stream) = 0;

  /// Moves host communication on and looks for errors of the network; cheap, called between GEMM tiles.
  virtual void poll() = 0;

  /// When a batch began (its sends could start) and when it was complete. Passed after finish(), and valid
  /// until the next begin().
  struct Flight {
    kernels::Event* begun = nullptr;
    kernels::Event* done = nullptr;
  };
  virtual Flight flight(Ticket ticket) const = 0;

  /// Blocks until every batch is complete and `stream` has run dry, polling for errors, with the time-out.
  /// Ends the step: tickets are void after the next begin().
  virtual void finish(kernels::Stream* stream) = 0;

  /// Frees what is in flight without waiting for peers, so that the process can leave.
  virtual void abort() noexcept = 0;
};

}  // namespace relibra::exec
