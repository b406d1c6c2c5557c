// Transfers between devices by NCCL. Communicators are non-blocking: a call that would wait for a peer
// returns at once, and the wait is here, with a time-out, so that a lost peer ends as an error.
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "kernels/cuda/cuda.h"

namespace relibra::kernels {

struct Network {
  Device* device;
  std::int32_t size, rank;
  double timeout_seconds;
  ncclComm_t comm = nullptr;
};

namespace cuda {
namespace {

static_assert(sizeof(NetworkId::bytes) == NCCL_UNIQUE_ID_BYTES);

using Clock = std::chrono::steady_clock;

/// ncclInProgress is not a failure here: settle() comes after it.
Status check(const Network& network, ncclResult_t result, const char* call) {
  if (result == ncclSuccess || result == ncclInProgress) return Status::ok;
  const char* detail = ncclGetLastError(network.comm);
  return fail(Status::failed, std::string(call) + ": " + ncclGetErrorString(result) +
                                  (detail && *detail ? std::string(" (") + detail + ")" : std::string()));
}

/// Waits until what was called last is under way on the device.
Status settle(const Network& network, const char* call) {
  const auto start = Clock::now();
  for (;;) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(network.comm, &state);
    if (asked != ncclSuccess) return check(network, asked, "ncclCommGetAsyncError");
    if (state != ncclInProgress) return check(network, state, call);
    if (std::chrono::duration<double>(Clock::now() - start).count() > network.timeout_seconds)
      return fail(Status::failed, std::string(call) + ": rank " + std::to_string(network.rank) + " of " +
                                      std::to_string(network.size) + " waited for its peers longer than " +
                                      std::to_string(network.timeout_seconds) + " s");
    std::this_thread::yield();
  }
}

Status called(const Network& network, ncclResult_t result, const char* call) {
  if (const Status status = check(network, result, call); status != Status::ok) return status;
  return settle(network, call);
}

Status check_peer(const Network& network, std::int32_t peer) {
  if (peer >= 0 && peer < network.size) return Status::ok;
  return fail(Status::failed, "network_exchange: expected a peer below " + std::to_string(network.size) +
                                  ", found " + std::to_string(peer));
}

template <class Message>
Status check_peers(const Network& network, const Message* messages, std::int32_t count) {
  for (std::int32_t i = 0; i < count; ++i)
    if (const Status status = check_peer(network, messages[i].peer); status != Status::ok) return status;
  return Status::ok;
}

template <class Message>
bool nothing(const Message* messages, std::int32_t count) {
  for (std::int32_t i = 0; i < count; ++i)
    if (messages[i].bytes > 0) return false;
  return true;
}

/// The first failure of the group's calls; later ones are not made, but the group is always closed.
Status enqueue(const Network& network, cudaStream_t stream, const NetworkSend* sends, std::int32_t send_count,
               const NetworkReceive* receives, std::int32_t receive_count) {
  for (std::int32_t i = 0; i < send_count; ++i) {
    const NetworkSend& send = sends[i];
    if (send.bytes == 0) continue;
    const auto result = ncclSend(send.data, send.bytes, ncclInt8, send.peer, network.comm, stream);
    if (const Status status = check(network, result, "ncclSend"); status != Status::ok) return status;
  }
  for (std::int32_t i = 0; i < receive_count; ++i) {
    const NetworkReceive& receive = receives[i];
    if (receive.bytes == 0) continue;
    const auto result = ncclRecv(receive.data, receive.bytes, ncclInt8, receive.peer, network.comm, stream);
    if (const Status status = check(network, result, "ncclRecv"); status != Status::ok) return status;
  }
  return Status::ok;
}

}  // namespace

Status network_id(NetworkId* id) {
  ncclUniqueId made{};
  const Network none{};
  if (const Status status = check(none, ncclGetUniqueId(&made), "ncclGetUniqueId"); status != Status::ok)
    return status;
  std::memcpy(id->bytes, made.internal, sizeof id->bytes);
  return Status::ok;
}

Status network_create(Device* device, const NetworkId* id, std::int32_t size, std::int32_t rank,
                      double timeout_seconds, Network** network) {
  if (const Status status = activate(device); status != Status::ok) return status;
  ncclUniqueId key{};
  std::memcpy(key.internal, id->bytes, sizeof id->bytes);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  auto* made = new Network{device, size, rank, timeout_seconds};
  const Status status =
      called(*made, ncclCommInitRankConfig(&made->comm, size, key, rank, &config), "ncclCommInitRankConfig");
  if (status == Status::ok) {
    *network = made;
    return status;
  }
  const std::string text = last_error();
  network_abort(made);
  return fail(status, text);
}

Status network_exchange(Network* network, Stream* stream, const NetworkSend* sends, std::int32_t send_count,
                        const NetworkReceive* receives, std::int32_t receive_count) {
  if (nothing(sends, send_count) && nothing(receives, receive_count)) return Status::ok;
  if (const Status status = activate(network->device); status != Status::ok) return status;
  Status status = check_peers(*network, sends, send_count);
  if (status == Status::ok) status = check_peers(*network, receives, receive_count);
  if (status != Status::ok) return status;
  status = check(*network, ncclGroupStart(), "ncclGroupStart");
  if (status != Status::ok) return status;
  status = enqueue(*network, stream->handle, sends, send_count, receives, receive_count);
  const std::string text = last_error();
  const ncclResult_t ended = ncclGroupEnd();
  if (status != Status::ok) return fail(status, text);
  return called(*network, ended, "ncclGroupEnd");
}

Status network_poll(Network* network) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(network->comm, &state);
  return check(*network, asked == ncclSuccess ? state : asked, "a transfer between devices");
}

Status network_abort(Network* network) {
  if (!network) return Status::ok;
  Status status = activate(network->device);
  ncclComm_t comm = std::exchange(network->comm, nullptr);
  if (comm) status = check(*network, ncclCommAbort(comm), "ncclCommAbort");
  delete network;
  return status;
}

Status network_destroy(Network* network) {
  if (!network) return Status::ok;
  if (const Status status = activate(network->device); status != Status::ok) return status;
  const Status status = called(*network, ncclCommFinalize(network->comm), "ncclCommFinalize");
  if (status != Status::ok) {
    const std::string text = last_error();
    network_abort(network);
    return fail(status, text);
  }
  ncclComm_t comm = std::exchange(network->comm, nullptr);
  const Status destroyed = check(*network, ncclCommDestroy(comm), "ncclCommDestroy");
  delete network;
  return destroyed;
}

}  // namespace cuda
}  // namespace relibra::kernels
