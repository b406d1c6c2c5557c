#pragma once
// Communicators of the double: how ranks find each other, what they exchange, and what each checks of it.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "nccl.h"
#include "tests/support/cuda_double/queue.h"
#include "tests/support/cuda_double/wire.h"

namespace cuda_double {

/// What is inside an ncclUniqueId. The process that made it brings the ranks together.
struct UniqueId {
  std::uint64_t communicator = 0;
  std::int32_t process = 0;
};
UniqueId make_unique_id();

/// One group of sends and receives of a rank, as an operation of a stream.
struct Exchange {
  struct Part {
    int peer;
    void* data;
    std::uint64_t bytes;
    std::uint64_t number;  ///< of the message between the two
  };
  ncclComm_t comm = nullptr;  ///< null once the communicator is gone
  cudaStream_t stream = nullptr;
  std::uint64_t order = 0;
  std::vector<Part> sends, receives;
  bool begun = false, done = false;

  /// Sends at the first call; true once everything has been received.
  bool step(const Operation& operation);

 private:
  void begin(const Operation& operation);
  bool receive(const Part& part);
};

}  // namespace cuda_double

struct ncclComm {
  enum class State { joining, ready, finalizing, finalized };

  cuda_double::UniqueId id;
  int size = 0, rank = 0, device = 0;
  State state = State::joining;
  ncclResult_t async_error = ncclSuccess;
  std::vector<std::int32_t> process;          ///< by rank, once joined
  std::vector<std::uint64_t> sent, received;  ///< messages with each rank
  std::shared_ptr<cuda_double::Exchange> pending;
  std::vector<std::shared_ptr<cuda_double::Exchange>> launched;
};

namespace cuda_double {

std::set<ncclComm_t>& communicators();

/// The place of a device's next group among all its groups.
std::uint64_t next_order(int device);

ncclComm_t join_communicator(const UniqueId& id, int size, int rank);
/// Answers ranks that joined by an id of this process once all have.
void serve_joins();
void try_join(ncclComm& comm);

void begin_finalize(ncclComm& comm);
void try_finalize(ncclComm& comm);
/// Ends what is in flight; peers find out when they finalize.
void abandon(ncclComm& comm);
void forget(ncclComm_t comm);

/// Why the last call was refused, where it was no violation.
const std::string& last_refusal();
/// Forgets the group of this thread, if one is open.
void clear_group();
std::string communicator_leaks();
void reset_communicators();

}  // namespace cuda_double

extern "C" void cuda_double_inject_async_error(ncclResult_t error);
