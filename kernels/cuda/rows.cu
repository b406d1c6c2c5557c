// gather_rows, combine_rows and the element-wise kernels on the device.
#include "kernels/cuda/launch.cuh"

namespace relibra::kernels::cuda {

cudaError_t launch(cudaStream_t stream, const GatherRows& args) {
  return start_task(stream, args);
}
cudaError_t launch(cudaStream_t stream, const CombineRows& args) {
  return start_task(stream, args);
}
cudaError_t launch(cudaStream_t stream, const Accumulate& args) {
  return start_task(stream, args);
}
cudaError_t launch(cudaStream_t stream, const Convert& args) {
  return start_task(stream, args);
}
cudaError_t launch(cudaStream_t stream, const Fill& args) {
  return start_task(stream, args);
}
cudaError_t launch(cudaStream_t stream, const AddProducts& args) {
  return start_task(stream, args);
}

}  // namespace relibra::kernels::cuda
