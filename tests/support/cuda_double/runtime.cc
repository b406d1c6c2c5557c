// The CUDA runtime's functions on queues and memory of the double.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "tests/support/cuda_double/queue.h"
#include "tests/support/cuda_double/wire.h"

namespace cuda_double {
namespace {

thread_local int device_of_thread = 0;
std::string first_violation;

std::set<cudaEvent_t>& events() {
  static auto* all = new std::set<cudaEvent_t>;
  return *all;
}

int waits_until_ignored = -1;  // a fault that tests put in; negative: none

/// 0 stands for a machine without a driver.
int device_total() {
  const char* text = std::getenv("CUDA_DOUBLE_DEVICES");
  return text ? std::atoi(text) : 8;
}

std::uint64_t device_bytes() {
  const char* text = std::getenv("CUDA_DOUBLE_MEMORY");
  return text ? std::strtoull(text, nullptr, 10) : std::uint64_t{4} << 30;
}

void check_event(cudaEvent_t event, const char* call) {
  if (!events().contains(event)) violate(std::string(call) + ": an event that does not exist");
}

cudaEvent_t recorded(cudaEvent_t event, const char* call) {
  check_event(event, call);
  if (!event->timed) violate(std::string(call) + ": an event made without timing");
  if (!event->record) throw Refusal{cudaErrorInvalidResourceHandle};
  if (!event->record->passed) throw Refusal{cudaErrorNotReady};
  return event;
}

bool matches(cudaMemcpyKind kind, const Allocation* to, const Allocation* from) {
  if (kind == cudaMemcpyDefault) return true;
  const bool to_device = to && to->place == Place::device, from_device = from && from->place == Place::device;
  return to_device == (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
         from_device == (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice);
}

void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream,
          std::unique_lock<std::mutex>& lock) {
  const Allocation *target = find_allocation(to), *source = find_allocation(from);
  if (!matches(kind, target, source)) violate("cudaMemcpyAsync: memory of another kind than the call says");
  // Memory that is not page-locked: the runtime waits for the stream, then takes the bytes before it returns.
  // Bytes for a device are then on their way; bytes for the host have come.
  if (!source || !target) drain(stream, lock);
  std::vector<std::byte> taken;
  if (!source) {
    taken.resize(bytes);
    std::memcpy(taken.data(), from, bytes);
  }
  const auto accesses = [=](Access& access) {
    access.allow_host();
    if (source) access.read(from, bytes);
    if (target) access.write(to, bytes);
    access.check_disjoint();
  };
  enqueue_simple(stream, "cudaMemcpyAsync", accesses, [=, taken = std::move(taken)] {
    std::memcpy(to, taken.empty() ? from : taken.data(), bytes);
  });
  if (!target) drain(stream, lock);
}

}  // namespace

std::mutex& mutex() {
  static auto* one = new std::mutex;
  return *one;
}

void violate(const std::string& text) {
  if (first_violation.empty()) first_violation = "CUDA double: " + text;
  throw Violation(first_violation);
}

const std::string& violation() {
  return first_violation;
}

void clear_violation() {
  first_violation.clear();
}

int current_device() {
  return device_of_thread;
}

std::string runtime_leaks() {
  std::string text;
  for (const cudaStream_t stream : streams()) text += "stream " + std::to_string(stream->component) + "\n";
  if (!events().empty()) text += std::to_string(events().size()) + " events\n";
  return text;
}

void reset_events() {
  for (const cudaEvent_t event : events()) delete event;
  events().clear();
}

}  // namespace cuda_double

using namespace cuda_double;

extern "C" {

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorAssert:
      return violation().c_str();
    default:
      return "error";
  }
}

cudaError_t cudaGetLastError(void) {
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  return guarded([&](auto&) {
    if (device_total() == 0) throw Refusal{cudaErrorInsufficientDriver};  // and *count stays as it is
    *count = device_total();
  });
}

cudaError_t cudaSetDevice(int device) {
  return guarded([&](auto&) {
    if (device < 0 || device >= device_total()) throw Refusal{cudaErrorInvalidDevice};
    device_of_thread = device;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  return guarded([&](auto&) {
    *properties = {};
    std::strcpy(properties->name, "CUDA double");
    properties->totalGlobalMem = device_bytes();
    properties->major = 9;
    properties->multiProcessorCount = 1;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  return guarded([&](auto&) { *value = 9; });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return guarded([&](auto&) { std::snprintf(text, static_cast<std::size_t>(length), "double:%d", device); });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return guarded([&](auto&) {
    *total = device_bytes();
    *free = device_bytes() - bytes_in_use(device_of_thread);
  });
}

cudaError_t cudaDeviceSynchronize(void) {
  return guarded([&](auto& lock) { drain_all(device_of_thread, lock); });
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return guarded([&](auto&) {
    if (bytes > device_bytes() - bytes_in_use(device_of_thread)) throw Refusal{cudaErrorMemoryAllocation};
    *data = allocate(bytes, Place::device, device_of_thread);
  });
}

cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return guarded([&](auto&) {
    if (bytes > device_bytes()) throw Refusal{cudaErrorMemoryAllocation};
    *data = allocate(bytes, Place::host, 0);
  });
}

cudaError_t cudaFree(void* data) {
  return guarded(
      [&](auto&) {
        if (data) release(data, Place::device, host_clock());
      },
      On::release);
}

cudaError_t cudaFreeHost(void* data) {
  return guarded(
      [&](auto&) {
        if (data) release(data, Place::host, host_clock());
      },
      On::release);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return guarded([&](auto& lock) {
    check_stream(stream, "cudaMemcpyAsync");
    if (bytes > 0) copy(to, from, bytes, kind, stream, lock);
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return guarded([&](auto&) {
    if (flags != cudaStreamNonBlocking)
      violate("cudaStreamCreateWithFlags: a stream that the default stream holds up");
    *stream = make_stream(device_of_thread);
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return guarded(
      [&](auto&) {
        check_stream(stream, "cudaStreamDestroy");
        destroy_stream(stream);
      },
      On::release);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return guarded([&](auto& lock) {
    check_stream(stream, "cudaStreamSynchronize");
    drain(stream, lock);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  return guarded([&](auto&) {
    check_stream(stream, "cudaStreamWaitEvent");
    check_event(event, "cudaStreamWaitEvent");
    const bool ignored = waits_until_ignored == 0;
    if (waits_until_ignored >= 0) --waits_until_ignored;
    if (event->record && !ignored) enqueue_wait(stream, event->record);
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return guarded([&](auto&) {
    *event = new CUevent_st{device_of_thread, (flags & cudaEventDisableTiming) == 0, nullptr};
    events().insert(*event);
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return guarded(
      [&](auto&) {
        check_event(event, "cudaEventDestroy");
        events().erase(event);
        delete event;
      },
      On::release);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return guarded([&](auto&) {
    check_stream(stream, "cudaEventRecord");
    check_event(event, "cudaEventRecord");
    if (event->device != stream->device) violate("cudaEventRecord: an event and a stream of two devices");
    event->record = enqueue_record(stream);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return guarded([&](auto&) {
    check_event(event, "cudaEventQuery");
    if (event->record && !try_pass(event->record)) throw Refusal{cudaErrorNotReady};
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return guarded([&](auto&) {
    const auto start = recorded(from, "cudaEventElapsedTime")->record->time;
    const auto stop = recorded(to, "cudaEventElapsedTime")->record->time;
    *milliseconds = std::chrono::duration<float, std::milli>(stop - start).count();
  });
}

int cuda_double_ignore_wait(int number) {
  std::lock_guard lock(mutex());
  const int left = waits_until_ignored;
  waits_until_ignored = number;
  return left;
}

const char* cuda_double_violation() {
  return violation().c_str();
}

}  // extern "C"
