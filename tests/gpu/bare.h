#pragma once
// The same work by calls of cuBLAS and the runtime alone: what the backend's rates are compared with.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <functional>

#include "kernels/backend.h"

namespace relibra::gpu_check {

/// A stream and a cuBLAS handle of their own on device `index`. Throws std::runtime_error naming the call.
class Bare {
 public:
  explicit Bare(int index);
  ~Bare();
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;

  /// The least of `repeats` times of `work`, in seconds, after one more as warm-up.
  double seconds(int repeats, const std::function<void()>& work) const;

  void copy(void* to, const void* from, std::size_t bytes) const;
  /// out (rows, n) = a (rows, k) * b (n, k)^T, row-major.
  void multiply(kernels::Type type, std::int64_t rows, std::int64_t n, std::int64_t k, const void* a,
                const void* b, void* out) const;

 private:
  cudaStream_t stream_ = nullptr;
  cublasHandle_t handle_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace relibra::gpu_check
