// NCCL's functions on queues of the double and messages between ranks. Communicators are non-blocking ones,
// as the module makes them: a group is under way on its stream only once ncclCommGetAsyncError has said so.
#include "nccl.h"

#include <cstring>

#include "tests/support/cuda_double/communicator.h"
#include "tests/support/cuda_double/queue.h"

namespace cuda_double {
namespace {

struct Call {
  ncclComm_t comm;
  cudaStream_t stream;
  bool send;
  void* data;
  std::uint64_t bytes;
  int peer;
};

thread_local int group_depth = 0;
thread_local std::vector<Call> group;

template <class F>
ncclResult_t guarded_nccl(F&& f, On kind = On::use) {
  return guarded(f, kind) == cudaSuccess ? ncclSuccess : ncclInternalError;
}

void check_communicator(ncclComm_t comm, const char* call) {
  if (!communicators().contains(comm)) violate(std::string(call) + ": a communicator that does not exist");
  if (comm->device != current_device())
    violate(std::string(call) + ": a communicator of device " + std::to_string(comm->device) +
            " while device " + std::to_string(current_device()) + " is the current one");
}

void add_call(const Call& call) {
  const char* name = call.send ? "ncclSend" : "ncclRecv";
  check_communicator(call.comm, name);
  check_stream(call.stream, name);
  if (group_depth == 0) violate(std::string(name) + " outside of ncclGroupStart and ncclGroupEnd");
  if (call.comm->state != ncclComm::State::ready || call.comm->pending)
    violate(std::string(name) + " on a communicator whose last call was not waited for");
  if (call.peer < 0 || call.peer >= call.comm->size) violate(std::string(name) + ": no such peer");
  group.push_back(call);
}

/// The group's calls on one communicator as one operation, with the numbers that its messages carry.
std::shared_ptr<Exchange> exchange_of(ncclComm_t comm) {
  auto exchange = std::make_shared<Exchange>();
  exchange->comm = comm;
  exchange->order = next_order(comm->device);
  for (const Call& call : group) {
    if (call.comm != comm) continue;
    if (exchange->stream && exchange->stream != call.stream)
      violate("ncclGroupEnd: one communicator on two streams");
    exchange->stream = call.stream;
    auto& count = call.send ? comm->sent : comm->received;
    const auto peer = static_cast<std::size_t>(call.peer);
    (call.send ? exchange->sends : exchange->receives)
        .push_back({call.peer, call.data, call.bytes, count[peer]++});
  }
  return exchange;
}

void end_group() {
  while (!group.empty()) {
    const ncclComm_t comm = group.front().comm;
    const auto exchange = exchange_of(comm);
    comm->pending = exchange;
    exchange->stream->busy_call = "ncclGroupEnd";
    std::erase_if(group, [comm](const Call& call) { return call.comm == comm; });
  }
}

void launch_pending(ncclComm_t comm) {
  const auto exchange = std::move(comm->pending);
  comm->pending = nullptr;
  std::erase_if(comm->launched, [](const auto& one) { return one->done; });
  exchange->stream->busy_call = nullptr;
  enqueue(exchange->stream, "ncclGroupEnd", [exchange](const Operation& operation) {
    return exchange->step(operation);
  }).dropped = [exchange] { return exchange->comm == nullptr; };
  comm->launched.push_back(exchange);
}

ncclResult_t state_of(ncclComm_t comm) {
  using State = ncclComm::State;
  if (comm->pending) launch_pending(comm);
  if (comm->state == State::joining || comm->state == State::finalizing) {
    run_anything();
    serve_joins();
    comm->state == State::joining ? try_join(*comm) : try_finalize(*comm);
  }
  if (comm->async_error != ncclSuccess) return comm->async_error;
  return comm->state == State::ready || comm->state == State::finalized ? ncclSuccess : ncclInProgress;
}

}  // namespace

void clear_group() {
  group_depth = 0;
  group.clear();
}

}  // namespace cuda_double

using namespace cuda_double;

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return guarded_nccl([&](auto&) {
    const UniqueId made = make_unique_id();
    std::memset(id->internal, 0, sizeof id->internal);
    std::memcpy(id->internal, &made, sizeof made);
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const auto result = guarded_nccl([&](auto&) {
    if (config->blocking != 0)
      violate("ncclCommInitRankConfig: a blocking communicator, which waits for ever");
    UniqueId key;
    std::memcpy(&key, id.internal, sizeof key);
    *comm = join_communicator(key, size, rank);
  });
  return result == ncclSuccess ? ncclInProgress : result;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const auto result = guarded_nccl([&](auto&) {
    check_communicator(comm, "ncclCommFinalize");
    begin_finalize(*comm);
  });
  return result == ncclSuccess ? ncclInProgress : result;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return guarded_nccl(
      [&](auto&) {
        check_communicator(comm, "ncclCommDestroy");
        if (comm->state != ncclComm::State::finalized)
          violate("ncclCommDestroy before ncclCommFinalize is through");
        forget(comm);
      },
      On::release);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return guarded_nccl(
      [&](auto&) {
        check_communicator(comm, "ncclCommAbort");
        abandon(*comm);
        forget(comm);
      },
      On::release);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  return guarded_nccl([&](auto&) {
    check_communicator(comm, "ncclCommGetAsyncError");
    *state = state_of(comm);
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "internal error";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  return violation().empty() ? last_refusal().c_str() : violation().c_str();
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return guarded_nccl([&](auto&) { add_call({comm, stream, true, const_cast<void*>(data), count, peer}); });
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return guarded_nccl([&](auto&) { add_call({comm, stream, false, data, count, peer}); });
}

ncclResult_t ncclGroupStart(void) {
  return guarded_nccl([&](auto&) { ++group_depth; });
}

ncclResult_t ncclGroupEnd(void) {
  bool started = false;
  const auto result = guarded_nccl([&](auto&) {
    if (group_depth == 0) violate("ncclGroupEnd without ncclGroupStart");
    if (--group_depth > 0) return;
    started = !group.empty();
    end_group();
  });
  return result == ncclSuccess && started ? ncclInProgress : result;
}

void cuda_double_inject_async_error(ncclResult_t error) {
  std::lock_guard lock(mutex());
  for (const ncclComm_t comm : communicators()) comm->async_error = error;
}

}  // extern "C"
