// SwiGLU on the device.
#include "kernels/cuda/launch.cuh"

namespace relibra::kernels::cuda {

cudaError_t launch(cudaStream_t stream, const SwigluForward& args) {
  return start_task(stream, args);
}
cudaError_t launch(cudaStream_t stream, const SwigluBackward& args) {
  return start_task(stream, args);
}

}  // namespace relibra::kernels::cuda
