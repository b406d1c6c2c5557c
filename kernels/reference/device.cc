// Device, memory, streams and events of the host.
#include <cstdlib>
#include <cstring>

#include "kernels/reference/reference.h"

namespace relibra::kernels::reference {
namespace {

thread_local std::string error_text;
constexpr std::size_t kAlignment = 256;

}  // namespace

Status fail(Status status, std::string text) {
  error_text = std::move(text);
  return status;
}

const char* last_error() {
  return error_text.c_str();
}

Status device_count(std::int32_t* count) {
  *count = 1;
  return Status::ok;
}

Status device_open(std::int32_t index, Device** device) {
  if (index != 0) return fail(Status::failed, "the host is device 0, found " + std::to_string(index));
  *device = new Device;
  return Status::ok;
}

Status device_info(Device*, DeviceInfo* info) {
  *info = {};
  std::strncpy(info->name, "host", sizeof info->name - 1);
  host_memory(info->total_bytes, info->free_bytes);
  return Status::ok;
}

Status device_close(Device* device) {
  delete device;
  return Status::ok;
}

Status allocate(Device*, Memory, std::uint64_t bytes, void** data) {
  const std::uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  *data = std::aligned_alloc(kAlignment, rounded ? rounded : kAlignment);
  if (*data) return Status::ok;
  return fail(Status::out_of_memory, "no memory for " + std::to_string(bytes) + " bytes");
}

Status release(Device*, Memory, void* data) {
  std::free(data);
  return Status::ok;
}

Status copy(Stream*, void* to, const void* from, std::uint64_t bytes) {
  if (bytes) std::memmove(to, from, bytes);
  return Status::ok;
}

Status stream_create(Device* device, Stream** stream) {
  *stream = new Stream{device};
  return Status::ok;
}

Status stream_destroy(Stream* stream) {
  delete stream;
  return Status::ok;
}

Status stream_synchronize(Stream*) {
  return Status::ok;
}

Status event_create(Device*, Event** event) {
  *event = new Event;
  return Status::ok;
}

Status event_destroy(Event* event) {
  delete event;
  return Status::ok;
}

Status event_record(Event* event, Stream*) {
  event->time = std::chrono::steady_clock::now();
  return Status::ok;
}

Status event_query(Event*, bool* passed) {
  *passed = true;
  return Status::ok;
}

Status stream_wait(Stream*, Event*) {
  return Status::ok;
}

Status event_elapsed(Event* from, Event* to, double* seconds) {
  *seconds = std::chrono::duration<double>(to->time - from->time).count();
  return Status::ok;
}

Status set_poll(Device* device, void (*poll)(void*), void* context) {
  device->poll = poll;
  device->poll_context = context;
  return Status::ok;
}

}  // namespace relibra::kernels::reference
