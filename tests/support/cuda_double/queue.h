#pragma once
// Streams and events as queues of operations. Nothing runs when it is given to a stream. Once something
// waits, what it needs runs, in the order of the streams; the rest runs only where nothing else can move, as
// it would on a device by itself.
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/report.h"

namespace cuda_double {
/// What cudaEventRecord makes: a point of a stream. An event names its latest.
struct Record {
  cudaStream_t stream = nullptr;
  Clock clock;
  bool passed = false;
  std::chrono::steady_clock::time_point time{};
};

struct Operation {
  Point who;
  Clock clock;
  std::shared_ptr<Record> waits_for;           ///< not before this
  std::function<bool(const Operation&)> work;  ///< false: not done yet, call again
  std::function<bool()> dropped;               ///< true: its communicator is gone, pass over it; may be empty
};
}  // namespace cuda_double

struct CUstream_st {
  int component = 0;  ///< of clocks; in texts the stream's number
  int device = 0;
  cuda_double::Clock clock;
  std::deque<cuda_double::Operation> queue;
  const char* busy_call = nullptr;  ///< a communicator's call that has not been waited for, if any
};

struct CUevent_st {
  int device = 0;
  bool timed = true;
  std::shared_ptr<cuda_double::Record> record;
};

namespace cuda_double {

int current_device();
Clock& host_clock();
/// Every stream that has not been destroyed, oldest first.
std::vector<cudaStream_t>& streams();

cudaStream_t make_stream(int device);
void destroy_stream(cudaStream_t stream);
/// Throws Violation unless the stream exists and is of the current device.
void check_stream(cudaStream_t stream, const char* call);

/// Gives `work` to the stream. `name` is a literal.
Operation& enqueue(cudaStream_t stream, const char* name, std::function<bool(const Operation&)> work);
std::shared_ptr<Record> enqueue_record(cudaStream_t stream);
void enqueue_wait(cudaStream_t stream, const std::shared_ptr<Record>& record);

/// Runs what `record` needs as far as it goes without waiting for others; true where it has passed.
bool try_pass(const std::shared_ptr<Record>& record);
/// Runs until the stream is empty; afterwards the host knows that all of it happened.
void drain(cudaStream_t stream, std::unique_lock<std::mutex>& lock);
void drain_all(int device, std::unique_lock<std::mutex>& lock);
/// Every stream as far as it goes without waiting for others; true where something moved.
bool run_anything();

/// An operation that finishes when its accesses are checked and `work` has run: kernels, GEMMs, copies.
void enqueue_simple(cudaStream_t stream, const char* name, std::function<void(Access&)> accesses,
                    std::function<void()> work);

/// After a communicator was aborted: what is in flight has ended, and nobody asks how.
void end_everything();
void reset_queues();

}  // namespace cuda_double
