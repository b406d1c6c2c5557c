#include "tests/support/cuda_double/queue.h"

#include <cstdlib>
#include <thread>

#include "tests/support/cuda_double/wire.h"

namespace cuda_double {
namespace {

using Steady = std::chrono::steady_clock;

int next_component = 1;
bool aborted = false;  // a communicator was: what is in flight ends somehow

double patience_seconds() {
  const char* text = std::getenv("CUDA_DOUBLE_TIMEOUT");
  return text ? std::atof(text) : 20.0;
}

bool front_done(cudaStream_t stream) {
  Operation& front = stream->queue.front();
  if (front.dropped && front.dropped()) return true;
  return front.work(front);
}

/// Runs the stream until it is empty, `stop` has passed or its front cannot go on; first what the front waits
/// for. True where something ran.
bool advance(cudaStream_t stream, const Record* stop) {
  bool moved = false;
  while (!stream->queue.empty() && !(stop && stop->passed)) {
    const auto needed = stream->queue.front().waits_for;
    if (needed && !needed->passed) {
      moved |= advance(needed->stream, needed.get());
      if (!needed->passed) return moved;
    }
    if (!front_done(stream)) return moved;
    stream->queue.pop_front();
    moved = true;
  }
  return moved;
}

std::string stuck_text() {
  std::string text = "nothing moves any more:";
  for (const cudaStream_t stream : streams()) {
    text += " stream " + std::to_string(stream->component);
    text += stream->queue.empty() ? " is empty;"
                                  : std::string(" waits in ") + stream->queue.front().who.name + ";";
  }
  return text + waiting_messages_text();
}

/// Runs `needed` first and the rest where that is stuck, until `done` holds.
template <class Done>
void run_until(Done&& done, cudaStream_t needed, std::unique_lock<std::mutex>& lock) {
  auto last_move = Steady::now();
  while (!done()) {
    if (advance(needed, nullptr) || run_anything()) {
      last_move = Steady::now();
      continue;
    }
    if (std::chrono::duration<double>(Steady::now() - last_move).count() > patience_seconds())
      violate(stuck_text());
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
    if (!violation().empty()) throw Violation(violation());  // by another thread meanwhile
  }
}

}  // namespace

Clock& host_clock() {
  static auto* clock = new Clock;
  return *clock;
}

std::vector<cudaStream_t>& streams() {
  static auto* all = new std::vector<cudaStream_t>;
  return *all;
}

cudaStream_t make_stream(int device) {
  auto* made = new CUstream_st{.component = next_component++, .device = device};
  streams().push_back(made);
  return made;
}

void destroy_stream(cudaStream_t stream) {
  if (!stream->queue.empty() && !aborted)
    violate("stream " + std::to_string(stream->component) + " is destroyed with " +
            std::to_string(stream->queue.size()) + " operations in flight, the first " +
            stream->queue.front().who.name);
  std::erase(streams(), stream);
  delete stream;
}

void check_stream(cudaStream_t stream, const char* call) {
  if (!stream) violate(std::string(call) + ": the default stream, which orders what should run at once");
  if (std::find(streams().begin(), streams().end(), stream) == streams().end())
    violate(std::string(call) + ": a stream that does not exist");
  if (stream->device != current_device())
    violate(std::string(call) + ": a stream of device " + std::to_string(stream->device) + " while device " +
            std::to_string(current_device()) + " is the current one");
  if (stream->busy_call)
    violate(std::string(call) + " on stream " + std::to_string(stream->component) + " before " +
            stream->busy_call +
            " on it was waited for (ncclCommGetAsyncError until it is not ncclInProgress)");
}

Operation& enqueue(cudaStream_t stream, const char* name, std::function<bool(const Operation&)> work) {
  stream->clock.join(host_clock());
  const auto tick = stream->clock.advance(stream->component);
  stream->queue.push_back({{stream->component, tick, name}, stream->clock, nullptr, std::move(work), {}});
  return stream->queue.back();
}

std::shared_ptr<Record> enqueue_record(cudaStream_t stream) {
  auto record = std::make_shared<Record>();
  record->stream = stream;
  record->clock = enqueue(stream, "cudaEventRecord", [record](const Operation&) {
                    record->passed = true;
                    record->time = Steady::now();
                    return true;
                  }).clock;
  return record;
}

void enqueue_wait(cudaStream_t stream, const std::shared_ptr<Record>& record) {
  enqueue(stream, "cudaStreamWaitEvent", [](const Operation&) { return true; }).waits_for = record;
  stream->clock.join(record->clock);
}

bool run_anything() {
  bool moved = pump();
  for (auto it = streams().rbegin(); it != streams().rend(); ++it) moved |= advance(*it, nullptr);
  return moved;
}

bool try_pass(const std::shared_ptr<Record>& record) {
  if (!record->passed) advance(record->stream, record.get());
  if (!record->passed) run_anything();
  if (record->passed) host_clock().join(record->clock);
  return record->passed;
}

void drain(cudaStream_t stream, std::unique_lock<std::mutex>& lock) {
  run_until([&] { return stream->queue.empty(); }, stream, lock);
  host_clock().join(stream->clock);
}

void drain_all(int device, std::unique_lock<std::mutex>& lock) {
  for (std::size_t i = 0; i < streams().size(); ++i)
    if (streams()[i]->device == device) drain(streams()[i], lock);
}

void enqueue_simple(cudaStream_t stream, const char* name, std::function<void(Access&)> accesses,
                    std::function<void()> work) {
  const int device = stream->device;
  enqueue(stream, name,
          [device, accesses = std::move(accesses), work = std::move(work)](const Operation& operation) {
            Access access(operation.who, operation.clock, device);
            accesses(access);
            access.commit();
            work();
            return true;
          });
}

void end_everything() {
  aborted = true;
  for (const cudaStream_t stream : streams()) host_clock().join(stream->clock);
}

void reset_queues() {
  aborted = false;
  for (const cudaStream_t stream : streams()) delete stream;
  streams().clear();
}

}  // namespace cuda_double
