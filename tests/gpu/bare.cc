#include "tests/gpu/bare.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace relibra::gpu_check {
namespace {

void check(cudaError_t result, const char* call) {
  if (result != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(result));
}

void check(cublasStatus_t result, const char* call) {
  if (result != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(call) + ": " + cublasGetStatusString(result));
}

}  // namespace

Bare::Bare(int index) {
  check(cudaSetDevice(index), "cudaSetDevice");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cublasCreate(&handle_), "cublasCreate");
  check(cublasSetStream(handle_, stream_), "cublasSetStream");
  check(cudaEventCreateWithFlags(&begin_, cudaEventDefault), "cudaEventCreateWithFlags");
  check(cudaEventCreateWithFlags(&end_, cudaEventDefault), "cudaEventCreateWithFlags");
}

Bare::~Bare() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
  cublasDestroy(handle_);
  cudaStreamDestroy(stream_);
}

double Bare::seconds(int repeats, const std::function<void()>& work) const {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= repeats; ++i) {
    check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    work();
    check(cudaEventRecord(end_, stream_), "cudaEventRecord");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    if (i > 0) least = std::min(least, static_cast<double>(milliseconds) * 1e-3);
  }
  return least;
}

void Bare::copy(void* to, const void* from, std::size_t bytes) const {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
}

void Bare::multiply(kernels::Type type, std::int64_t rows, std::int64_t n, std::int64_t k, const void* a,
                    const void* b, void* out) const {
  const cudaDataType_t data = type == kernels::Type::float32 ? CUDA_R_32F : CUDA_R_16BF;
  const float one = 1, zero = 0;
  const int m = static_cast<int>(rows), columns = static_cast<int>(n), depth = static_cast<int>(k);
  check(cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, columns, m, depth, &one, b, data, depth, a, data,
                     depth, &zero, out, data, columns, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

}  // namespace relibra::gpu_check
