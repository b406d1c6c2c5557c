// Streams, events and copies.
#include "kernels/cuda/cuda.h"

namespace relibra::kernels::cuda {

Status copy(Stream* stream, void* to, const void* from, std::uint64_t bytes) {
  if (bytes == 0) return Status::ok;
  if (const Status status = activate(stream->device); status != Status::ok) return status;
  return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream->handle), "cudaMemcpyAsync");
}

Status stream_create(Device* device, Stream** stream) {
  if (const Status status = activate(device); status != Status::ok) return status;
  Stream made{.device = device};
  const Status status =
      check(cudaStreamCreateWithFlags(&made.handle, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  if (status == Status::ok) *stream = new Stream(made);
  return status;
}

Status stream_destroy(Stream* stream) {
  if (!stream) return Status::ok;
  Status status = activate(stream->device);
  if (stream->blas) {
    const Status next = check(cublasDestroy(stream->blas), "cublasDestroy");
    if (status == Status::ok) status = next;
  }
  const Status next = check(cudaStreamDestroy(stream->handle), "cudaStreamDestroy");
  delete stream;
  return status == Status::ok ? next : status;
}

Status stream_synchronize(Stream* stream) {
  if (const Status status = activate(stream->device); status != Status::ok) return status;
  return check(cudaStreamSynchronize(stream->handle), "cudaStreamSynchronize");
}

Status event_create(Device* device, Event** event) {
  if (const Status status = activate(device); status != Status::ok) return status;
  Event made{.device = device};
  const Status status =
      check(cudaEventCreateWithFlags(&made.handle, cudaEventDefault), "cudaEventCreateWithFlags");
  if (status == Status::ok) *event = new Event(made);
  return status;
}

Status event_destroy(Event* event) {
  if (!event) return Status::ok;
  Status status = activate(event->device);
  const Status next = check(cudaEventDestroy(event->handle), "cudaEventDestroy");
  delete event;
  return status == Status::ok ? next : status;
}

Status event_record(Event* event, Stream* stream) {
  if (const Status status = activate(stream->device); status != Status::ok) return status;
  return check(cudaEventRecord(event->handle, stream->handle), "cudaEventRecord");
}

Status event_query(Event* event, bool* passed) {
  *passed = false;
  if (const Status status = activate(event->device); status != Status::ok) return status;
  const cudaError_t result = cudaEventQuery(event->handle);
  if (result == cudaErrorNotReady) {
    cudaGetLastError();
    return Status::ok;
  }
  *passed = result == cudaSuccess;
  return check(result, "cudaEventQuery");
}

Status stream_wait(Stream* stream, Event* event) {
  if (const Status status = activate(stream->device); status != Status::ok) return status;
  return check(cudaStreamWaitEvent(stream->handle, event->handle, 0), "cudaStreamWaitEvent");
}

Status event_elapsed(Event* from, Event* to, double* seconds) {
  if (const Status status = activate(from->device); status != Status::ok) return status;
  float milliseconds = 0;
  const Status status =
      check(cudaEventElapsedTime(&milliseconds, from->handle, to->handle), "cudaEventElapsedTime");
  *seconds = static_cast<double>(milliseconds) * 1e-3;
  return status;
}

/// The device computes by itself: nothing waits on the calling thread.
Status set_poll(Device*, void (*)(void*), void*) {
  return Status::ok;
}

}  // namespace relibra::kernels::cuda
