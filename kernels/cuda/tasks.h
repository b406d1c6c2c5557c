#pragma once
// What one thread, or one warp, of each kernel does, for any shape of launch; everything about indices is
// here, so that a host can run it too. Three kinds of tasks:
//
//   RowTask   rows(), chunks(), operator()(row, chunk): every pair once, in any order
//   FlatTask  count(), operator()(i): every i once, in any order
//   WarpTask  rows(), lane(row, lane) for the 32 lanes, then finish(row, sum of what they returned)
//
// A task of N columns needs rows and pointers that keep N elements aligned; for_task() picks the widest.
#include "kernels/bodies/rows.h"
#include "kernels/bodies/swiglu.h"
#include "kernels/cuda/launch.h"

namespace relibra::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr std::int64_t kVectorBytes = 16;  // the widest load of a thread

/// Rows are copied as they are, whatever their elements.
struct alignas(16) Bytes16 {
  std::uint32_t word[4];
};

template <class T>
struct GatherTask {
  GatherRows args;  // width in units of T
  RELIBRA_HOST_DEVICE std::int64_t rows() const { return args.rows; }
  RELIBRA_HOST_DEVICE std::int64_t chunks() const { return args.width; }
  RELIBRA_HOST_DEVICE void operator()(std::int64_t row, std::int64_t chunk) const {
    gather_columns<T, 1>(args, row, chunk);
  }
};

template <class T, int N>
struct CombineTask {
  CombineRows args;
  RELIBRA_HOST_DEVICE std::int64_t rows() const { return args.rows; }
  RELIBRA_HOST_DEVICE std::int64_t chunks() const { return args.width / N; }
  RELIBRA_HOST_DEVICE void operator()(std::int64_t row, std::int64_t chunk) const {
    combine_columns<T, N>(args, row, chunk * N);
  }
};

template <class T, int N>
struct SwigluForwardTask {
  SwigluForward args;
  RELIBRA_HOST_DEVICE std::int64_t rows() const { return args.rows; }
  RELIBRA_HOST_DEVICE std::int64_t chunks() const { return args.width / N; }
  RELIBRA_HOST_DEVICE void operator()(std::int64_t row, std::int64_t chunk) const {
    const T* from = static_cast<const T*>(args.gate_up) + row * 2 * args.width + chunk * N;
    const auto gate = load_columns<T, N>(from);
    const auto up = load_columns<T, N>(from + args.width);
    float hidden[N];
    for (int c = 0; c < N; ++c) hidden[c] = swiglu(to_float(gate[c]), to_float(up[c]));
    store_columns<T, N>(static_cast<T*>(args.hidden) + row * args.width + chunk * N, hidden);
  }
};

template <class T, int N>
struct SwigluBackwardTask {
  SwigluBackward args;
  RELIBRA_HOST_DEVICE std::int64_t rows() const { return args.rows; }

  /// The lane's part of grad_weight[row]; writes its columns of the other outputs.
  RELIBRA_HOST_DEVICE float lane(std::int64_t row, int lane) const {
    float sum = 0;
    for (std::int64_t column = lane * N; column < args.width; column += kWarp * N)
      sum += columns(row, column);
    return sum;
  }
  RELIBRA_HOST_DEVICE void finish(std::int64_t row, float sum) const { args.grad_weight[row] = sum; }

 private:
  RELIBRA_HOST_DEVICE float columns(std::int64_t row, std::int64_t column) const {
    const std::int64_t wide = row * 2 * args.width + column, narrow = row * args.width + column;
    const T* gate_up = static_cast<const T*>(args.gate_up) + wide;
    const auto gate = load_columns<T, N>(gate_up);
    const auto up = load_columns<T, N>(gate_up + args.width);
    const auto d = load_columns<T, N>(static_cast<const T*>(args.grad_hidden) + narrow);
    const float weight = args.weight[row];
    float grad_gate[N], grad_up[N], hidden[N], sum = 0;
    for (int c = 0; c < N; ++c) {
      const auto gradient = swiglu_gradient(to_float(gate[c]), to_float(up[c]), to_float(d[c]), weight);
      grad_gate[c] = gradient.gate;
      grad_up[c] = gradient.up;
      hidden[c] = gradient.weighted_hidden;
      sum += gradient.product;
    }
    T* out = static_cast<T*>(args.grad_gate_up) + wide;
    store_columns<T, N>(out, grad_gate);
    store_columns<T, N>(out + args.width, grad_up);
    store_columns<T, N>(static_cast<T*>(args.weighted_hidden) + narrow, hidden);
    return sum;
  }
};

struct AccumulateTask {
  Accumulate args;
  RELIBRA_HOST_DEVICE std::int64_t count() const { return args.count; }
  RELIBRA_HOST_DEVICE void operator()(std::int64_t i) const { args.out[i] += args.in[i]; }
};

template <class To, class From>
struct ConvertTask {
  Convert args;
  RELIBRA_HOST_DEVICE std::int64_t count() const { return args.count; }
  RELIBRA_HOST_DEVICE void operator()(std::int64_t i) const {
    static_cast<To*>(args.out)[i] = from_float<To>(to_float(static_cast<const From*>(args.in)[i]));
  }
};

template <class T>
struct FillTask {
  Fill args;
  RELIBRA_HOST_DEVICE std::int64_t count() const { return args.count; }
  RELIBRA_HOST_DEVICE void operator()(std::int64_t i) const {
    static_cast<T*>(args.out)[i] = from_float<T>(args.value);
  }
};

/// A thread adds kWide elements; a group's count is a multiple of it.
struct AddProductsTask {
  static constexpr int kWide = 4;
  AddProducts args;
  RELIBRA_HOST_DEVICE std::int64_t count() const { return args.groups * (args.count / kWide); }
  RELIBRA_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t parts = args.count / kWide, group = i / parts, at = (i - group * parts) * kWide;
    const auto product = load_columns<Bf16, kWide>(static_cast<const Bf16*>(args.product[group]) + at);
    float* out = args.out[group] + at;
    float sum[kWide];
    for (int c = 0; c < kWide; ++c) sum[c] = to_float(product[c]);
    if (args.accumulate[group]) {
      const auto before = load_columns<float, kWide>(out);
      for (int c = 0; c < kWide; ++c) sum[c] += before[c];
    }
    store_columns<float, kWide>(out, sum);
  }
};

/// True where rows of `row_bytes` from every pointer (null is passed over) start at multiples of 16 bytes.
template <class... Pointer>
bool aligned(std::int64_t row_bytes, const Pointer*... pointers) {
  return row_bytes % kVectorBytes == 0 &&
         ((reinterpret_cast<std::uintptr_t>(pointers) % kVectorBytes == 0) && ...);
}

template <template <class, int> class Task, class Args, class Run>
auto by_type(const Args& args, bool wide, Run&& run) {
  if (args.type == Type::float32) return wide ? run(Task<float, 4>{args}) : run(Task<float, 1>{args});
  return wide ? run(Task<Bf16, 8>{args}) : run(Task<Bf16, 1>{args});
}

/// Calls run(task) with the task for these arguments and returns what it returns.
template <class Run>
auto for_task(const GatherRows& args, Run&& run) {
  const auto bytes = args.width * static_cast<std::int64_t>(size_of(args.type));
  if (aligned(bytes, args.in, args.out)) {
    GatherTask<Bytes16> task{args};
    task.args.width = bytes / kVectorBytes;
    return run(task);
  }
  return args.type == Type::float32 ? run(GatherTask<float>{args}) : run(GatherTask<Bf16>{args});
}

template <class Run>
auto for_task(const CombineRows& args, Run&& run) {
  const auto bytes = args.width * static_cast<std::int64_t>(size_of(args.type));
  return by_type<CombineTask>(args, aligned(bytes, args.base, args.in, args.out), run);
}

template <class Run>
auto for_task(const SwigluForward& args, Run&& run) {
  const auto bytes = args.width * static_cast<std::int64_t>(size_of(args.type));
  return by_type<SwigluForwardTask>(args, aligned(bytes, args.gate_up, args.hidden), run);
}

template <class Run>
auto for_task(const SwigluBackward& args, Run&& run) {
  const auto bytes = args.width * static_cast<std::int64_t>(size_of(args.type));
  const bool wide = aligned(bytes, args.gate_up, args.grad_hidden, args.grad_gate_up, args.weighted_hidden);
  return by_type<SwigluBackwardTask>(args, wide, run);
}

template <class Run>
auto for_task(const Accumulate& args, Run&& run) {
  return run(AccumulateTask{args});
}

template <class Run>
auto for_task(const Convert& args, Run&& run) {
  if (args.out_type == Type::float32)
    return args.in_type == Type::float32 ? run(ConvertTask<float, float>{args})
                                         : run(ConvertTask<float, Bf16>{args});
  return args.in_type == Type::float32 ? run(ConvertTask<Bf16, float>{args})
                                       : run(ConvertTask<Bf16, Bf16>{args});
}

template <class Run>
auto for_task(const Fill& args, Run&& run) {
  return args.type == Type::float32 ? run(FillTask<float>{args}) : run(FillTask<Bf16>{args});
}

template <class Run>
auto for_task(const AddProducts& args, Run&& run) {
  return run(AddProductsTask{args});
}

}  // namespace relibra::kernels::cuda
