#include "kernels/backend.h"

#include "kernels/reference/reference.h"
#include "kernels/registry.h"

namespace relibra::kernels {

const Backend& reference_backend() {
  using namespace reference;
  static const Backend backend = {
      .version = kBackendVersion,
      .name = "reference",
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
      .network_id = nullptr,
      .network_create = nullptr,
      .network_exchange = nullptr,
      .network_poll = nullptr,
      .network_abort = nullptr,
      .network_destroy = nullptr,
  };
  return backend;
}

}  // namespace relibra::kernels
