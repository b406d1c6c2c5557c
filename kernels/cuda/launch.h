#pragma once
// The kernels as the host code sees them: each puts its work into a stream and returns at once. The sizes and
// pointers have been checked; nothing to do is legal. Device pointers are aligned as their elements are.
#include <cuda_runtime_api.h>

#include "kernels/backend.h"

namespace relibra::kernels::cuda {

/// out += in, float32.
struct Accumulate {
  float* out;
  const float* in;
  std::int64_t count;
};

struct Convert {
  void* out;
  Type out_type;
  const void* in;
  Type in_type;
  std::int64_t count;
};

struct Fill {
  void* out;
  Type type;
  float value;
  std::int64_t count;
};

/// Adds bfloat16 products into float32 buffers, one pair a group: out[g][i] (+)= product[g][i] for i in
/// [0, count), count a multiple of 8. `accumulate` is an array, since groups differ.
struct AddProducts {
  float* const* out;               ///< (groups) on the device
  const void* const* product;      ///< (groups) on the device, bfloat16
  const std::int32_t* accumulate;  ///< (groups) on the device, 0: overwrite
  std::int64_t groups, count;
};

cudaError_t launch(cudaStream_t stream, const GatherRows& args);
cudaError_t launch(cudaStream_t stream, const CombineRows& args);
cudaError_t launch(cudaStream_t stream, const SwigluForward& args);
cudaError_t launch(cudaStream_t stream, const SwigluBackward& args);
cudaError_t launch(cudaStream_t stream, const Accumulate& args);
cudaError_t launch(cudaStream_t stream, const Convert& args);
cudaError_t launch(cudaStream_t stream, const Fill& args);
cudaError_t launch(cudaStream_t stream, const AddProducts& args);

}  // namespace relibra::kernels::cuda
