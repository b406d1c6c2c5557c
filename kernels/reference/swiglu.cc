// SwiGLU on the host, a row at a time.
#include "kernels/bodies/swiglu.h"

#include "kernels/reference/reference.h"

namespace relibra::kernels::reference {
namespace {

/// Partial sums of grad_weight, so that every vector width adds in the same order.
constexpr std::int64_t kLanes = 16;

template <class T>
__attribute__((target_clones("avx512f", "avx2", "default"))) void forward_row(const SwigluForward& args,
                                                                              std::int64_t row) {
#pragma GCC ivdep
  for (std::int64_t column = 0; column < args.width; ++column) swiglu_forward_element<T>(args, row, column);
}

template <class T>
__attribute__((target_clones("avx512f", "avx2", "default"))) void backward_row(const SwigluBackward& args,
                                                                               std::int64_t row) {
  float lanes[kLanes] = {};
  std::int64_t column = 0;
  for (; column + kLanes <= args.width; column += kLanes)
#pragma GCC ivdep
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += swiglu_backward_element<T>(args, row, column + lane);
  for (; column < args.width; ++column) lanes[0] += swiglu_backward_element<T>(args, row, column);
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  args.grad_weight[row] = sum;
}

template <class F>
void for_each_row(std::int64_t rows, F&& f) {
#pragma omp parallel for schedule(static) if (rows > 8)
  for (std::int64_t row = 0; row < rows; ++row) f(row);
}

}  // namespace

Status swiglu_forward(Stream*, const SwigluForward* args) {
  if (args->type == Type::float32)
    for_each_row(args->rows, [&](std::int64_t row) { forward_row<float>(*args, row); });
  else
    for_each_row(args->rows, [&](std::int64_t row) { forward_row<Bf16>(*args, row); });
  return Status::ok;
}

Status swiglu_backward(Stream*, const SwigluBackward* args) {
  if (args->type == Type::float32)
    for_each_row(args->rows, [&](std::int64_t row) { backward_row<float>(*args, row); });
  else
    for_each_row(args->rows, [&](std::int64_t row) { backward_row<Bf16>(*args, row); });
  return Status::ok;
}

}  // namespace relibra::kernels::reference
