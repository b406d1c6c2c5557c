// gather_rows, combine_rows and the element-wise kernels on the host.
#include "kernels/bodies/rows.h"

#include <cstring>

#include "kernels/reference/reference.h"

namespace relibra::kernels::reference {
namespace {

constexpr int kColumns = 64;  // of a run: fits the vector registers of any x86-64

/// Rows below this many elements in all are not worth waking a team for.
constexpr std::int64_t kParallelElements = 1 << 15;

template <class T>
__attribute__((target_clones("avx512f", "avx2", "default"))) void combine_row(const CombineRows& args,
                                                                              std::int64_t row) {
  std::int64_t column = 0;
  for (; column + kColumns <= args.width; column += kColumns) combine_columns<T, kColumns>(args, row, column);
  for (; column < args.width; ++column) combine_columns<T, 1>(args, row, column);
}

template <class T>
void gather_row(const GatherRows& args, std::int64_t row) {
  const auto bytes = static_cast<std::size_t>(args.width) * sizeof(T);
  std::memcpy(static_cast<T*>(args.out) + row * args.width,
              static_cast<const T*>(args.in) + args.index[row] * args.width, bytes);
}

template <class F>
void for_each_row(std::int64_t rows, std::int64_t width, F&& f) {
#pragma omp parallel for schedule(static) if (rows * width > kParallelElements)
  for (std::int64_t row = 0; row < rows; ++row) f(row);
}

template <class F>
void for_each_block(std::int64_t count, F&& f) {
  constexpr std::int64_t block = 4096;
#pragma omp parallel for schedule(static) if (count > kParallelElements)
  for (std::int64_t first = 0; first < count; first += block)
    f(first, first + block < count ? first + block : count);
}

}  // namespace

Status gather_rows(Stream*, const GatherRows* args) {
  if (args->type == Type::float32)
    for_each_row(args->rows, args->width, [&](std::int64_t row) { gather_row<float>(*args, row); });
  else
    for_each_row(args->rows, args->width, [&](std::int64_t row) { gather_row<Bf16>(*args, row); });
  return Status::ok;
}

Status combine_rows(Stream*, const CombineRows* args) {
  if (args->type == Type::float32)
    for_each_row(args->rows, args->width, [&](std::int64_t row) { combine_row<float>(*args, row); });
  else
    for_each_row(args->rows, args->width, [&](std::int64_t row) { combine_row<Bf16>(*args, row); });
  return Status::ok;
}

Status accumulate(Stream*, float* out, const float* in, std::int64_t count) {
  for_each_block(count, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) out[i] += in[i];
  });
  return Status::ok;
}

Status convert(Stream*, void* out, Type out_type, const void* in, Type in_type, std::int64_t count) {
  const auto run = [&]<class To, class From>(To* to, const From* from) {
    for_each_block(count, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) to[i] = from_float<To>(to_float(from[i]));
    });
  };
  const auto from_type = [&]<class To>(To* to) {
    if (in_type == Type::float32)
      run(to, static_cast<const float*>(in));
    else
      run(to, static_cast<const Bf16*>(in));
  };
  if (out_type == Type::float32)
    from_type(static_cast<float*>(out));
  else
    from_type(static_cast<Bf16*>(out));
  return Status::ok;
}

Status fill(Stream*, void* out, Type type, float value, std::int64_t count) {
  const auto run = [&]<class T>(T* to) {
    const T element = from_float<T>(value);
    for_each_block(count, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) to[i] = element;
    });
  };
  if (type == Type::float32)
    run(static_cast<float*>(out));
  else
    run(static_cast<Bf16*>(out));
  return Status::ok;
}

}  // namespace relibra::kernels::reference
