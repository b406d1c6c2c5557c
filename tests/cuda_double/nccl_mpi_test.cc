// The double catches every misuse of communicators, within a rank and between ranks.
#include "lib/comm/comm.h"
#include "tests/cuda_double/bench.h"
#include "tests/support/cuda_double/communicator.h"

namespace relibra::testing {
namespace {

class Nccl : public DoubleTest {
 protected:
  Nccl() { cudaSetDevice(world.rank()); }
  ~Nccl() override { world.barrier(); }

  /// Waits as the module does; the state that is not ncclInProgress.
  static ncclResult_t settled(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress)
      if (const auto asked = ncclCommGetAsyncError(comm, &state); asked != ncclSuccess) return asked;
    return state;
  }
  static ncclConfig_t non_blocking() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
  }
  ncclComm_t begin_join(int size, int rank) {
    ncclUniqueId id{};
    if (world.root()) ncclGetUniqueId(&id);
    world.broadcast(id);
    return begin_join(id, size, rank);
  }
  static ncclComm_t begin_join(const ncclUniqueId& id, int size, int rank) {
    ncclComm_t comm = nullptr;
    ncclConfig_t config = non_blocking();
    EXPECT_EQ(ncclCommInitRankConfig(&comm, size, id, rank, &config), ncclInProgress);
    return comm;
  }
  /// A communicator of this rank alone.
  static ncclComm_t alone() {
    ncclUniqueId id{};
    ncclGetUniqueId(&id);
    const ncclComm_t comm = begin_join(id, 1, 0);
    EXPECT_EQ(settled(comm), ncclSuccess);
    return comm;
  }
  ncclComm_t everyone() {
    const ncclComm_t comm = begin_join(world.size(), world.rank());
    EXPECT_EQ(settled(comm), ncclSuccess);
    return comm;
  }
  static void finalize(ncclComm_t comm) {
    if (ncclCommFinalize(comm) == ncclInProgress) settled(comm);
  }
  int right() const { return (world.rank() + 1) % world.size(); }
  int left() const { return (world.rank() + world.size() - 1) % world.size(); }
  /// Sends `out` bytes to the right and receives `in` from the left, as far as neither is negative.
  void around(ncclComm_t comm, int out, int in, cudaStream_t stream) {
    ncclGroupStart();
    if (out >= 0)
      ncclSend(written(64, stream), static_cast<std::size_t>(out), ncclInt8, right(), comm, stream);
    if (in >= 0) ncclRecv(device_memory(64), static_cast<std::size_t>(in), ncclInt8, left(), comm, stream);
    ncclGroupEnd();
    settled(comm);
  }

  const Comm world = Comm::world();
};

TEST_F(Nccl, ARingPassesAndLeavesNothing) {
  const auto comm = everyone();
  const auto stream = make_stream();
  for (int i = 1; i < 5; ++i) around(comm, i, i, stream);
  cudaStreamSynchronize(stream);
  finalize(comm);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  expect_clean();
}

TEST_F(Nccl, SizesOfAMessageAgree) {
  const auto comm = everyone();
  const auto stream = make_stream();
  around(comm, 16, 12, stream);
  cudaStreamSynchronize(stream);
  expect_violation("16 bytes were sent and 12 are received");
}

TEST_F(Nccl, EverySendHasItsReceive) {
  const auto comm = everyone();
  const auto stream = make_stream();
  around(comm, 16, -1, stream);
  cudaStreamSynchronize(stream);
  expect_clean();  // seen only at the end, as a send does not wait
  finalize(comm);
  expect_violation("sent 1 messages");
}

TEST_F(Nccl, AReceiveWithoutASendIsADeadlock) {
  setenv("CUDA_DOUBLE_TIMEOUT", "0.3", 1);
  const auto comm = everyone();
  const auto stream = make_stream();
  around(comm, -1, 16, stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorAssert);
  expect_violation("nothing moves any more");
  unsetenv("CUDA_DOUBLE_TIMEOUT");
}

// Rank 0 calls on its first communicator and then on its second, the others the other way round. The streams
// are two, so that the messages themselves would match.
TEST_F(Nccl, RanksCallInOneOrder) {
  if (world.size() < 2) GTEST_SKIP() << "needs 2 ranks";
  const auto one = everyone(), two = everyone();
  const auto first = make_stream(), second = make_stream();
  around(world.root() ? one : two, 8, 8, first);
  around(world.root() ? two : one, 8, 8, second);
  cudaStreamSynchronize(first);
  cudaStreamSynchronize(second);
  const bool mine = std::string(cuda_double_violation()).find("in different orders") != std::string::npos;
  EXPECT_EQ(world.max(int{mine}), 1);
}

TEST_F(Nccl, TwoRanksOnOneDeviceAreRefused) {
  if (world.size() < 2) GTEST_SKIP() << "needs 2 ranks";
  cudaSetDevice(0);
  const auto comm = begin_join(world.size(), world.rank());
  EXPECT_EQ(settled(comm), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(comm), ::testing::HasSubstr("Duplicate GPU detected"));
  expect_clean();
}

TEST_F(Nccl, WorkOnAStreamWaitsForTheCallBeforeIt) {
  const auto comm = alone();
  const auto stream = make_stream();
  std::byte *out = written(8, stream), *in = device_memory(8);
  ncclGroupStart();
  ncclSend(out, 8, ncclInt8, 0, comm, stream);
  ncclRecv(in, 8, ncclInt8, 0, comm, stream);
  EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
  copy(device_memory(8), in, 8, stream);  // before ncclCommGetAsyncError
  expect_violation("before ncclGroupEnd on it was waited for");
}

TEST_F(Nccl, CallsAreGroupedAndOnLivingCommunicators) {
  const auto comm = alone();
  const auto stream = make_stream();
  EXPECT_NE(ncclSend(written(8, stream), 8, ncclInt8, 0, comm, stream), ncclSuccess);
  expect_violation("outside of ncclGroupStart");
  cuda_double::clear_violation();
  EXPECT_NE(ncclCommDestroy(comm), ncclSuccess);
  expect_violation("ncclCommDestroy before ncclCommFinalize");
  cuda_double::clear_violation();
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  ncclResult_t state = ncclSuccess;
  EXPECT_NE(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  expect_violation("a communicator that does not exist");
}

TEST_F(Nccl, ReceivesDoNotOverlap) {
  const auto comm = alone();
  const auto stream = make_stream();
  std::byte *out = written(16, stream), *in = device_memory(16);
  ncclGroupStart();
  for (int i = 0; i < 2; ++i) {
    ncclSend(out, 8, ncclInt8, 0, comm, stream);
    ncclRecv(in + 4 * i, 8, ncclInt8, 0, comm, stream);
  }
  ncclGroupEnd();
  settled(comm);
  cudaStreamSynchronize(stream);
  expect_violation("writes twice byte 4");
}

TEST_F(Nccl, AReceivedBufferIsReadAfterAWait) {
  const auto comm = alone();
  const auto stream = make_stream(), other = make_stream();
  std::byte *out = written(8, stream), *in = device_memory(8);
  ncclGroupStart();
  ncclSend(out, 8, ncclInt8, 0, comm, stream);
  ncclRecv(in, 8, ncclInt8, 0, comm, stream);
  ncclGroupEnd();
  settled(comm);
  copy(device_memory(8), in, 8, other);
  cudaStreamSynchronize(stream);
  cudaStreamSynchronize(other);
  expect_violation("reads bytes 0 to 7");
}

TEST_F(Nccl, AnAbortEndsWhatIsInFlight) {
  const auto comm = everyone();
  const auto stream = make_stream();
  around(comm, -1, 16, stream);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  expect_clean();
}

TEST_F(Nccl, ErrorsOfTheNetworkShowInTheState) {
  const auto comm = alone();
  cuda_double_inject_async_error(ncclRemoteError);
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclRemoteError);
}

}  // namespace
}  // namespace relibra::testing
