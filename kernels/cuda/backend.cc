// The table of the CUDA backend and the one symbol of its module.
#include "kernels/backend.h"

#include <cstdlib>

#include "kernels/cuda/cuda.h"

namespace relibra::kernels::cuda {
namespace {

const Backend kBackend = {
    .version = kBackendVersion,
    .name = "cuda",
    .last_error = last_error,
    .device_count = device_count,
    .device_open = device_open,
    .device_info = device_info,
    .device_close = device_close,
    .allocate = allocate,
    .free = release,
    .copy = copy,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_synchronize = stream_synchronize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .stream_wait = stream_wait,
    .event_elapsed = event_elapsed,
    .gather_rows = gather_rows,
    .combine_rows = combine_rows,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .accumulate = accumulate,
    .convert = convert,
    .fill = fill,
    .gemm_create = gemm_create,
    .gemm_run = gemm_run,
    .gemm_destroy = gemm_destroy,
    .gemm_scratch = gemm_scratch,
    .set_poll = set_poll,
    .network_id = network_id,
    .network_create = network_create,
    .network_exchange = network_exchange,
    .network_poll = network_poll,
    .network_abort = network_abort,
    .network_destroy = network_destroy,
};

}  // namespace
}  // namespace relibra::kernels::cuda

extern "C" __attribute__((visibility("default"))) const relibra::kernels::Backend* relibra_open_backend(
    std::int32_t version) {
  if (version != relibra::kernels::kBackendVersion) return nullptr;
  // Communicators that run at once can wait for each other for ever unless NCCL starts their work in the
  // order of the calls. Read at the first NCCL call; whoever set it otherwise has a reason.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  return &relibra::kernels::cuda::kBackend;
}
