#pragma once
// The three shapes of a launch. What a thread does is in tasks.h.
#include <algorithm>

#include "kernels/cuda/tasks.h"

namespace relibra::kernels::cuda {
inline constexpr int kThreads = 256;
inline constexpr std::int64_t kMostBlocks = 1 << 20;  // beyond, blocks take several rows or stretches in turn

/// A block takes a row, its threads the chunks: neighbouring threads touch neighbouring memory.
template <class Task>
__global__ void __launch_bounds__(kThreads) run_rows(const Task task) {
  const std::int64_t rows = task.rows(), chunks = task.chunks();
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    for (std::int64_t chunk = threadIdx.x; chunk < chunks; chunk += blockDim.x) task(row, chunk);
}

template <class Task>
__global__ void __launch_bounds__(kThreads) run_flat(const Task task) {
  const std::int64_t count = task.count(), stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) task(i);
}

/// A warp takes a row. The sum is a butterfly, the same for every number of blocks.
template <class Task>
__global__ void __launch_bounds__(kThreads) run_warps(const Task task) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t warps = blockDim.x / kWarp, rows = task.rows(), stride = warps * gridDim.x;
  for (std::int64_t row = warps * blockIdx.x + threadIdx.x / kWarp; row < rows; row += stride) {
    float sum = task.lane(row, lane);
    for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
    if (lane == 0) task.finish(row, sum);
  }
}

template <class Task>
cudaError_t start(void (*kernel)(Task), std::int64_t blocks, std::int64_t threads, cudaStream_t stream,
                  Task task) {
  if (blocks == 0 || threads == 0) return cudaSuccess;
  void* arguments[] = {&task};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel),
                          static_cast<unsigned>(std::min(blocks, kMostBlocks)),
                          static_cast<unsigned>(threads), arguments, 0, stream);
}

template <class Task>
concept FlatTask = requires(Task task) {
  task.count();
};
template <class Task>
concept WarpTask = requires(Task task) {
  task.lane(0, 0);
};

template <class Task>
cudaError_t start(cudaStream_t stream, const Task& task) {
  if constexpr (FlatTask<Task>) {
    return start(run_flat<Task>, (task.count() + kThreads - 1) / kThreads, kThreads, stream, task);
  } else if constexpr (WarpTask<Task>) {
    constexpr std::int64_t warps = kThreads / kWarp;
    return start(run_warps<Task>, (task.rows() + warps - 1) / warps, kThreads, stream, task);
  } else {
    const std::int64_t whole_warps = (task.chunks() + kWarp - 1) / kWarp * kWarp;
    return start(run_rows<Task>, task.rows(), std::min<std::int64_t>(kThreads, whole_warps), stream, task);
  }
}

template <class Args>
cudaError_t start_task(cudaStream_t stream, const Args& args) {
  return for_task(args, [&](const auto& task) { return start(stream, task); });
}

}  // namespace relibra::kernels::cuda
