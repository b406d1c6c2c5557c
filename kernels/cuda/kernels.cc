// The kernels' places in the table: arguments into the stream of their device.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"

namespace relibra::kernels::cuda {
namespace {

template <class Args>
Status launched(Stream* stream, const Args& args, const char* name) {
  if (const Status status = activate(stream->device); status != Status::ok) return status;
  return check(launch(stream->handle, args), name);
}

}  // namespace

Status gather_rows(Stream* stream, const GatherRows* args) {
  return launched(stream, *args, "gather_rows");
}

Status combine_rows(Stream* stream, const CombineRows* args) {
  return launched(stream, *args, "combine_rows");
}

Status swiglu_forward(Stream* stream, const SwigluForward* args) {
  return launched(stream, *args, "swiglu_forward");
}

Status swiglu_backward(Stream* stream, const SwigluBackward* args) {
  return launched(stream, *args, "swiglu_backward");
}

Status accumulate(Stream* stream, float* out, const float* in, std::int64_t count) {
  return launched(stream, Accumulate{out, in, count}, "accumulate");
}

Status convert(Stream* stream, void* out, Type out_type, const void* in, Type in_type, std::int64_t count) {
  return launched(stream, Convert{out, out_type, in, in_type, count}, "convert");
}

Status fill(Stream* stream, void* out, Type type, float value, std::int64_t count) {
  return launched(stream, Fill{out, type, value, count}, "fill");
}

}  // namespace relibra::kernels::cuda
