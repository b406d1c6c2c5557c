// The module's kernels on the double: what each touches, checked, and then every thread's work, one after the
// other. The work is that of the device (kernels/cuda/tasks.h); only the shape of the launch is not.
#include "kernels/cuda/launch.h"

#include <array>

#include "kernels/cuda/tasks.h"
#include "tests/support/cuda_double/queue.h"

namespace relibra::kernels::cuda {
namespace {

using cuda_double::Access;

/// True where the ranges share a byte; equal ranges may, where a kernel works in place.
bool overlap(const void* a, const void* b, std::int64_t bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return x != y && (x > y ? x - y : y - x) < static_cast<std::uintptr_t>(bytes);
}

/// Rows of `bytes` that begin at multiples of it.
struct Rows {
  const void* data;
  std::int64_t bytes;
  const void* row(std::int64_t r) const { return static_cast<const std::byte*>(data) + r * bytes; }
};

std::uint64_t bytes_of(std::int64_t elements, Type type) {
  return static_cast<std::uint64_t>(elements) * size_of(type);
}

void read_rows(Access& access, const Rows& rows, const std::int32_t* index, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    access.read(rows.row(index[i]), static_cast<std::uint64_t>(rows.bytes));
}

void accesses_of(const GatherRows& args, Access& access) {
  access.read(args.index, bytes_of(args.rows, Type::float32));
  access.commit();  // before the indices are followed
  read_rows(access, {args.in, static_cast<std::int64_t>(bytes_of(args.width, args.type))}, args.index,
            args.rows);
  access.write(args.out, bytes_of(args.rows * args.width, args.type));
  access.check_disjoint();
}

void accesses_of(const CombineRows& args, Access& access) {
  access.read(args.offset, bytes_of(args.rows + 1, Type::float32));
  access.commit();
  const std::int32_t* index = args.index + args.offset[0];
  const std::int64_t terms = args.offset[args.rows] - args.offset[0];
  access.read(index, bytes_of(terms, Type::float32));
  access.commit();
  read_rows(access, {args.in, static_cast<std::int64_t>(bytes_of(args.width, args.type))}, index, terms);
  if (args.weight)
    for (std::int64_t j = 0; j < terms; ++j) access.read(args.weight + index[j], sizeof(float));
  const std::int64_t bytes = static_cast<std::int64_t>(bytes_of(args.rows * args.width, args.type));
  access.write(args.out, static_cast<std::uint64_t>(bytes));
  access.check_disjoint();
  if (!args.base) return;
  if (overlap(args.base, args.out, bytes)) cuda_double::violate("combine_rows: base and out overlap in part");
  access.read(args.base, static_cast<std::uint64_t>(bytes));
}

void accesses_of(const SwigluForward& args, Access& access) {
  access.read(args.gate_up, bytes_of(2 * args.rows * args.width, args.type));
  access.write(args.hidden, bytes_of(args.rows * args.width, args.type));
  access.check_disjoint();
}

void accesses_of(const SwigluBackward& args, Access& access) {
  const std::uint64_t narrow = bytes_of(args.rows * args.width, args.type), wide = 2 * narrow;
  access.read(args.weight, bytes_of(args.rows, Type::float32));
  if (args.grad_gate_up != args.gate_up) access.read(args.gate_up, wide);
  if (args.weighted_hidden != args.grad_hidden) access.read(args.grad_hidden, narrow);
  access.write(args.grad_gate_up, wide);
  access.write(args.weighted_hidden, narrow);
  access.write(args.grad_weight, bytes_of(args.rows, Type::float32));
  access.check_disjoint();
  access.read(args.gate_up, wide);
  access.read(args.grad_hidden, narrow);
}

void accesses_of(const Accumulate& args, Access& access) {
  access.read(args.in, bytes_of(args.count, Type::float32));
  access.write(args.out, bytes_of(args.count, Type::float32));
  access.check_disjoint();
  access.read(args.out, bytes_of(args.count, Type::float32));
}

void accesses_of(const Convert& args, Access& access) {
  access.read(args.in, bytes_of(args.count, args.in_type));
  access.write(args.out, bytes_of(args.count, args.out_type));
  access.check_disjoint();
}

void accesses_of(const Fill& args, Access& access) {
  access.write(args.out, bytes_of(args.count, args.type));
}

void accesses_of(const AddProducts& args, Access& access) {
  const auto groups = static_cast<std::uint64_t>(args.groups);
  access.read(args.out, groups * sizeof(void*));
  access.read(args.product, groups * sizeof(void*));
  access.read(args.accumulate, groups * sizeof(std::int32_t));
  access.commit();
  for (std::uint64_t g = 0; g < groups; ++g) {
    access.read(args.product[g], bytes_of(args.count, Type::bfloat16));
    access.write(args.out[g], bytes_of(args.count, Type::float32));
  }
  access.check_disjoint();
  for (std::uint64_t g = 0; g < groups; ++g)
    if (args.accumulate[g]) access.read(args.out[g], bytes_of(args.count, Type::float32));
}

/// The butterfly of a warp: after each step lane i holds what lanes i and i ^ offset held.
float warp_sum(std::array<float, kWarp> lanes) {
  for (std::size_t offset = kWarp / 2; offset > 0; offset /= 2) {
    const auto before = lanes;
    for (std::size_t lane = 0; lane < kWarp; ++lane) lanes[lane] = before[lane] + before[lane ^ offset];
  }
  return lanes[0];
}

template <class Task>
void run(const Task& task) {
  if constexpr (requires { task.count(); }) {
    for (std::int64_t i = task.count(); i-- > 0;) task(i);  // backwards: no thread may count on another
  } else if constexpr (requires { task.lane(0, 0); }) {
    for (std::int64_t row = 0; row < task.rows(); ++row) {
      std::array<float, kWarp> lanes{};
      for (int lane = kWarp; lane-- > 0;) lanes[static_cast<std::size_t>(lane)] = task.lane(row, lane);
      task.finish(row, warp_sum(lanes));
    }
  } else {
    for (std::int64_t row = task.rows(); row-- > 0;)
      for (std::int64_t chunk = task.chunks(); chunk-- > 0;) task(row, chunk);
  }
}

template <class Task>
bool nothing(const Task& task) {
  if constexpr (requires { task.count(); })
    return task.count() == 0;
  else if constexpr (requires { task.chunks(); })
    return task.rows() * task.chunks() == 0;
  else
    return task.rows() == 0;
}

template <class Args>
cudaError_t start(cudaStream_t stream, const char* name, const Args& args) {
  return cuda_double::guarded([&](auto&) {
    cuda_double::check_stream(stream, name);
    if (for_task(args, [](const auto& task) { return nothing(task); })) return;
    cuda_double::enqueue_simple(
        stream, name, [args](Access& access) { accesses_of(args, access); },
        [args] { for_task(args, [](const auto& task) { run(task); }); });
  });
}

}  // namespace

cudaError_t launch(cudaStream_t stream, const GatherRows& args) {
  return start(stream, "gather_rows", args);
}
cudaError_t launch(cudaStream_t stream, const CombineRows& args) {
  return start(stream, "combine_rows", args);
}
cudaError_t launch(cudaStream_t stream, const SwigluForward& args) {
  return start(stream, "swiglu_forward", args);
}
cudaError_t launch(cudaStream_t stream, const SwigluBackward& args) {
  return start(stream, "swiglu_backward", args);
}
cudaError_t launch(cudaStream_t stream, const Accumulate& args) {
  return start(stream, "accumulate", args);
}
cudaError_t launch(cudaStream_t stream, const Convert& args) {
  return start(stream, "convert", args);
}
cudaError_t launch(cudaStream_t stream, const Fill& args) {
  return start(stream, "fill", args);
}
cudaError_t launch(cudaStream_t stream, const AddProducts& args) {
  return start(stream, "add_products", args);
}

}  // namespace relibra::kernels::cuda
