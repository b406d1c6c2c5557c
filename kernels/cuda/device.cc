// Devices and their memory, and the text of errors.
#include <algorithm>
#include <cstring>

#include "kernels/cuda/cuda.h"

namespace relibra::kernels::cuda {
namespace {

thread_local std::string error_text;
constexpr int kLeastCapability = 8;  // of the architectures that the kernels are compiled for

}  // namespace

Status fail(Status status, std::string text) {
  error_text = std::move(text);
  return status;
}

const char* last_error() {
  return error_text.c_str();
}

Status check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return Status::ok;
  cudaGetLastError();  // an error that is not lasting stays for the next caller to find otherwise
  return fail(result == cudaErrorMemoryAllocation ? Status::out_of_memory : Status::failed,
              std::string(call) + ": " + cudaGetErrorString(result));
}

Status check(cublasStatus_t result, const char* call) {
  if (result == CUBLAS_STATUS_SUCCESS) return Status::ok;
  return fail(result == CUBLAS_STATUS_ALLOC_FAILED ? Status::out_of_memory : Status::failed,
              std::string(call) + ": " + cublasGetStatusString(result));
}

Status activate(const Device* device) {
  return check(cudaSetDevice(device->index), "cudaSetDevice");
}

Status device_count(std::int32_t* count) {
  *count = 0;
  int found = 0;  // stays as it is where there is no driver
  const cudaError_t result = cudaGetDeviceCount(&found);
  if (result == cudaSuccess && found > 0) {
    *count = found;
    return Status::ok;
  }
  fail(Status::ok, result == cudaSuccess ? "the driver lists none" : cudaGetErrorString(result));
  cudaGetLastError();
  return Status::ok;
}

Status device_open(std::int32_t index, Device** device) {
  std::int32_t count = 0;
  if (const Status status = device_count(&count); status != Status::ok) return status;
  if (index < 0 || index >= count)
    return fail(Status::failed,
                "expected a CUDA device below " + std::to_string(count) + ", found " + std::to_string(index));
  Device opened{.index = index};
  if (const Status status = activate(&opened); status != Status::ok) return status;
  int major = 0;
  Status status = check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index),
                        "cudaDeviceGetAttribute");
  if (status != Status::ok) return status;
  if (major < kLeastCapability)
    return fail(Status::unsupported, "expected a device of compute capability 8.0 or newer, found " +
                                         std::to_string(major) + ".x");
  status =
      check(cudaStreamCreateWithFlags(&opened.uploads, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  if (status != Status::ok) return status;
  status = check(cudaEventCreateWithFlags(&opened.scratch_free, cudaEventDisableTiming),
                 "cudaEventCreateWithFlags");
  if (status != Status::ok) {
    cudaStreamDestroy(opened.uploads);
    return status;
  }
  *device = new Device(std::move(opened));
  return Status::ok;
}

Status device_info(Device* device, DeviceInfo* info) {
  *info = {};
  if (const Status status = activate(device); status != Status::ok) return status;
  cudaDeviceProp properties{};
  Status status = check(cudaGetDeviceProperties(&properties, device->index), "cudaGetDeviceProperties");
  if (status != Status::ok) return status;
  std::memcpy(info->name, properties.name, std::min(std::strlen(properties.name), sizeof info->name - 1));
  status = check(cudaDeviceGetPCIBusId(info->bus, sizeof info->bus, device->index), "cudaDeviceGetPCIBusId");
  if (status != Status::ok) return status;
  std::size_t free_bytes = 0, total_bytes = 0;
  status = check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  info->free_bytes = free_bytes;
  info->total_bytes = total_bytes;
  return status;
}

Status device_close(Device* device) {
  if (!device) return Status::ok;
  Status status = activate(device);
  const auto keep_first = [&](Status next) {
    if (status == Status::ok) status = next;
  };
  keep_first(check(cudaStreamDestroy(device->uploads), "cudaStreamDestroy"));
  keep_first(check(cudaEventDestroy(device->scratch_free), "cudaEventDestroy"));
  keep_first(check(cudaFree(device->scratch), "cudaFree"));
  delete device;
  return status;
}

Status allocate(Device* device, Memory memory, std::uint64_t bytes, void** data) {
  *data = nullptr;
  if (const Status status = activate(device); status != Status::ok) return status;
  const std::uint64_t least = std::max<std::uint64_t>(bytes, 1);
  const Status status = memory == Memory::device ? check(cudaMalloc(data, least), "cudaMalloc")
                                                 : check(cudaMallocHost(data, least), "cudaMallocHost");
  if (status != Status::out_of_memory) return status;
  return fail(status, std::string("no ") + (memory == Memory::device ? "device" : "page-locked host") +
                          " memory for " + std::to_string(bytes) + " bytes");
}

Status release(Device* device, Memory memory, void* data) {
  if (!data) return Status::ok;
  if (const Status status = activate(device); status != Status::ok) return status;
  return memory == Memory::device ? check(cudaFree(data), "cudaFree")
                                  : check(cudaFreeHost(data), "cudaFreeHost");
}

}  // namespace relibra::kernels::cuda
