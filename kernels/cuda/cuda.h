#pragma once
// The host side of the CUDA backend: its objects and the functions of its table, which is in backend.cc. It
// calls the runtime, cuBLAS and NCCL and nothing else, so that the tests can put doubles behind those calls.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>
#include <vector>

#include "kernels/backend.h"

namespace relibra::kernels {

struct Device {
  int index = 0;
  cudaStream_t uploads = nullptr;  ///< small copies while a step is prepared
  // Products of bfloat16 weight gradients before they are added. One block for all GEMMs of the device, so
  // they take turns: `scratch_free` is the point after its last use.
  void* scratch = nullptr;
  std::uint64_t scratch_bytes = 0;
  cudaEvent_t scratch_free = nullptr;
  std::vector<Gemm*> scratch_users;
};

struct Stream {
  Device* device;
  cudaStream_t handle = nullptr;
  cublasHandle_t blas = nullptr;  ///< made by the first GEMM
};

struct Event {
  Device* device;
  cudaEvent_t handle = nullptr;
};

namespace cuda {

/// Keeps `text` for last_error() of this thread and returns `status`.
Status fail(Status status, std::string text);
const char* last_error();

/// Status of a call by its result; `call` names it in the text.
Status check(cudaError_t result, const char* call);
Status check(cublasStatus_t result, const char* call);

/// Calls of this thread go to the device from here on. Every function of the table does it first.
Status activate(const Device* device);

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

Status network_id(NetworkId* id);
Status network_create(Device* device, const NetworkId* id, std::int32_t size, std::int32_t rank,
                      double timeout_seconds, Network** network);
Status network_exchange(Network* network, Stream* stream, const NetworkSend* sends, std::int32_t send_count,
                        const NetworkReceive* receives, std::int32_t receive_count);
Status network_poll(Network* network);
Status network_abort(Network* network);
Status network_destroy(Network* network);

}  // namespace cuda
}  // namespace relibra::kernels
