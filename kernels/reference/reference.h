#pragma once
// The parts of the reference backend; the table that joins them is backend.cc. Streams run their work at
// once, on the calling thread and its OpenMP team.
#include <chrono>
#include <string>

#include "kernels/backend.h"

namespace relibra::kernels {

struct Device {
  void (*poll)(void*) = nullptr;
  void* poll_context = nullptr;
};
struct Stream {
  Device* device;
};
struct Event {
  std::chrono::steady_clock::time_point time{};
};

namespace reference {

/// Keeps `text` for last_error() of this thread and returns `status`.
Status fail(Status status, std::string text);
const char* last_error();

/// Bytes of memory that this host, or the control group of the process, has and has free.
void host_memory(std::uint64_t& total, std::uint64_t& free);

Status device_count(std::int32_t* count);
Status device_open(std::int32_t index, Device** device);
Status device_info(Device* device, DeviceInfo* info);
Status device_close(Device* device);
Status allocate(Device* device, Memory memory, std::uint64_t bytes, void** data);
Status release(Device* device, Memory memory, void* data);
Status copy(Stream* stream, void* to, const void* from, std::uint64_t bytes);
Status stream_create(Device* device, Stream** stream);
Status stream_destroy(Stream* stream);
Status stream_synchronize(Stream* stream);
Status event_create(Device* device, Event** event);
Status event_destroy(Event* event);
Status event_record(Event* event, Stream* stream);
Status event_query(Event* event, bool* passed);
Status stream_wait(Stream* stream, Event* event);
Status event_elapsed(Event* from, Event* to, double* seconds);
Status set_poll(Device* device, void (*poll)(void*), void* context);

Status gather_rows(Stream* stream, const GatherRows* args);
Status combine_rows(Stream* stream, const CombineRows* args);
Status swiglu_forward(Stream* stream, const SwigluForward* args);
Status swiglu_backward(Stream* stream, const SwigluBackward* args);
Status accumulate(Stream* stream, float* out, const float* in, std::int64_t count);
Status convert(Stream* stream, void* out, Type out_type, const void* in, Type in_type, std::int64_t count);
Status fill(Stream* stream, void* out, Type type, float value, std::int64_t count);

Status gemm_create(Device* device, const GemmSpec* spec, Gemm** gemm);
Status gemm_run(Stream* stream, Gemm* gemm);
Status gemm_destroy(Gemm* gemm);
Status gemm_scratch(const GemmSpec* spec, std::uint64_t* bytes);

}  // namespace reference
}  // namespace relibra::kernels
