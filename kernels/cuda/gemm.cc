// Grouped GEMM by cuBLAS. It sees column-major matrices, so a row-major (rows, columns) is to it the
// transpose with leading dimension `columns`, and out = a * b is asked for as out^T = b^T * a^T.
#include <algorithm>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"

namespace relibra::kernels {

struct Gemm {
  Device* device = nullptr;
  GemmKind kind{};
  Type type{};
  std::int64_t n = 0, k = 0;
  std::vector<GemmGroup> groups;
  // One entry a group, as cuBLAS takes them.
  std::vector<cublasOperation_t> transpose_left, transpose_right;
  std::vector<int> m_of, n_of, k_of, left_stride, right_stride, out_stride, ones;
  std::vector<float> alpha, beta;
  void* table = nullptr;  ///< on the device: see Table

  bool adds_products() const { return kind == GemmKind::weight_gradient && type == Type::bfloat16; }
};

namespace cuda {
namespace {

constexpr std::uint64_t kAlignment = 256;
constexpr std::int64_t kBf16Multiple = 8;  // 16 bytes: what the tensor-core kernels load at once
constexpr std::int64_t kMostRows = (std::int64_t{1} << 31) - 1;

/// The arrays of a Gemm on the device, one after the other: left, right and out pointers, then for
/// adds_products() the buffers that get the products, and whether each is added to.
struct Table {
  const void** left;
  const void** right;
  void** out;
  float** sum;
  std::int32_t* accumulate;

  Table(void* start, std::size_t count)
      : left(static_cast<const void**>(start)),
        right(left + count),
        out(const_cast<void**>(right + count)),
        sum(reinterpret_cast<float**>(out + count)),
        accumulate(reinterpret_cast<std::int32_t*>(sum + count)) {}
  static std::size_t bytes(std::size_t count) { return count * (4 * sizeof(void*) + sizeof(std::int32_t)); }
};

std::uint64_t product_bytes(const Gemm& gemm) {
  const auto bytes = static_cast<std::uint64_t>(gemm.n * gemm.k) * size_of(Type::bfloat16);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::uint64_t scratch_bytes(const Gemm& gemm) {
  return product_bytes(gemm) * gemm.groups.size();
}

Status check_spec(const GemmSpec& spec) {
  if (spec.type == Type::bfloat16 && (spec.n % kBf16Multiple != 0 || spec.k % kBf16Multiple != 0))
    return fail(Status::unsupported,
                "grouped GEMM: bfloat16 needs hidden and intermediate sizes that are multiples "
                "of 8, found " +
                    std::to_string(spec.n) + " and " + std::to_string(spec.k));
  for (std::int32_t g = 0; g < spec.count; ++g) {
    const GemmGroup& group = spec.groups[g];
    if (group.rows < 1 || std::max({group.rows, spec.n, spec.k}) > kMostRows)
      return fail(Status::failed, "grouped GEMM: expected 1 to 2^31 - 1 rows and columns, found " +
                                      std::to_string(group.rows) + " rows in group " + std::to_string(g));
    const auto addresses = reinterpret_cast<std::uintptr_t>(group.a) |
                           reinterpret_cast<std::uintptr_t>(group.b) |
                           reinterpret_cast<std::uintptr_t>(group.out);
    if (spec.type == Type::bfloat16 && addresses % (2 * kBf16Multiple) != 0)
      return fail(Status::unsupported, "grouped GEMM: bfloat16 matrices start at multiples of 16 bytes");
  }
  return Status::ok;
}

/// The shapes of a group, left being b and right being a.
void add_shapes(Gemm& gemm, const GemmGroup& group) {
  const int rows = static_cast<int>(group.rows), n = static_cast<int>(gemm.n), k = static_cast<int>(gemm.k);
  const bool forward = gemm.kind == GemmKind::forward, gradient = gemm.kind == GemmKind::weight_gradient;
  gemm.transpose_left.push_back(forward ? CUBLAS_OP_T : CUBLAS_OP_N);
  gemm.transpose_right.push_back(gradient ? CUBLAS_OP_T : CUBLAS_OP_N);
  gemm.m_of.push_back(forward ? n : k);
  gemm.n_of.push_back(gradient ? n : rows);
  gemm.k_of.push_back(gradient ? rows : forward ? k : n);
  gemm.left_stride.push_back(k);
  gemm.right_stride.push_back(forward ? k : n);
  gemm.out_stride.push_back(forward ? n : k);
  gemm.ones.push_back(1);
  gemm.alpha.push_back(1.0f);
  gemm.beta.push_back(gradient && group.accumulate && !gemm.adds_products() ? 1.0f : 0.0f);
}

/// Writes the device arrays of the Gemm; returns once they are there.
Status upload(const Gemm& gemm) {
  const std::size_t count = gemm.groups.size();
  std::vector<std::byte> host(Table::bytes(count));
  const Table table(host.data(), count);
  auto* product = static_cast<std::byte*>(gemm.device->scratch);
  for (std::size_t g = 0; g < count; ++g, product += gemm.adds_products() ? product_bytes(gemm) : 0) {
    const GemmGroup& group = gemm.groups[g];
    table.left[g] = group.b;
    table.right[g] = group.a;
    table.out[g] = gemm.adds_products() ? product : group.out;
    table.sum[g] = static_cast<float*>(group.out);
    table.accumulate[g] = group.accumulate;
  }
  const Status status = check(
      cudaMemcpyAsync(gemm.table, host.data(), host.size(), cudaMemcpyHostToDevice, gemm.device->uploads),
      "cudaMemcpyAsync");
  if (status != Status::ok) return status;
  return check(cudaStreamSynchronize(gemm.device->uploads), "cudaStreamSynchronize");
}

/// Makes the device's scratch as large as the Gemm asks. Nobody may be using the old block, and every Gemm
/// that will has its pointers written anew.
Status reserve_scratch(Device& device, std::uint64_t bytes) {
  if (bytes <= device.scratch_bytes) return Status::ok;
  Status status = check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  if (status != Status::ok) return status;
  status = check(cudaFree(device.scratch), "cudaFree");
  device.scratch = nullptr;
  device.scratch_bytes = 0;
  if (status == Status::ok) status = check(cudaMalloc(&device.scratch, bytes), "cudaMalloc");
  if (status == Status::out_of_memory)
    return fail(status,
                "no device memory for the " + std::to_string(bytes) + " bytes of bfloat16 weight gradients");
  if (status != Status::ok) return status;
  device.scratch_bytes = bytes;
  for (const Gemm* user : device.scratch_users)
    if (const Status uploaded = upload(*user); uploaded != Status::ok) return uploaded;
  return Status::ok;
}

Status prepare(Gemm& gemm) {
  for (const GemmGroup& group : gemm.groups) add_shapes(gemm, group);
  if (gemm.groups.empty()) return Status::ok;
  if (gemm.adds_products()) {
    const Status status = reserve_scratch(*gemm.device, scratch_bytes(gemm));
    if (status != Status::ok) return status;
  }
  const Status status = check(cudaMalloc(&gemm.table, Table::bytes(gemm.groups.size())), "cudaMalloc");
  if (status != Status::ok) return status;
  if (gemm.adds_products()) gemm.device->scratch_users.push_back(&gemm);
  return upload(gemm);
}

Status ready_blas(Stream& stream) {
  if (stream.blas) return Status::ok;
  const Status status = check(cublasCreate(&stream.blas), "cublasCreate");
  if (status != Status::ok) return status;
  return check(cublasSetStream(stream.blas, stream.handle), "cublasSetStream");
}

Status multiply(Stream& stream, const Gemm& gemm, const Table& table) {
  const cudaDataType_t type = gemm.type == Type::bfloat16 ? CUDA_R_16BF : CUDA_R_32F;
  return check(
      cublasGemmGroupedBatchedEx(
          stream.blas, gemm.transpose_left.data(), gemm.transpose_right.data(), gemm.m_of.data(),
          gemm.n_of.data(), gemm.k_of.data(), gemm.alpha.data(), table.left, type, gemm.left_stride.data(),
          table.right, type, gemm.right_stride.data(), gemm.beta.data(), table.out, type,
          gemm.out_stride.data(), static_cast<int>(gemm.groups.size()), gemm.ones.data(), CUBLAS_COMPUTE_32F),
      "cublasGemmGroupedBatchedEx");
}

/// Multiplies into the scratch and adds from there, after whoever used the scratch before, on any stream.
Status multiply_and_add(Stream& stream, const Gemm& gemm, const Table& table) {
  Device& device = *gemm.device;
  if (device.scratch_bytes < scratch_bytes(gemm))
    return fail(Status::failed, "grouped GEMM: its scratch is gone, since a larger one was not to be had");
  Status status = check(cudaStreamWaitEvent(stream.handle, device.scratch_free, 0), "cudaStreamWaitEvent");
  if (status == Status::ok) status = multiply(stream, gemm, table);
  if (status != Status::ok) return status;
  const AddProducts add{table.sum, table.out, table.accumulate, static_cast<std::int64_t>(gemm.groups.size()),
                        gemm.n * gemm.k};
  status = check(launch(stream.handle, add), "add_products");
  if (status != Status::ok) return status;
  return check(cudaEventRecord(device.scratch_free, stream.handle), "cudaEventRecord");
}

}  // namespace

Status gemm_create(Device* device, const GemmSpec* spec, Gemm** gemm) {
  if (const Status status = activate(device); status != Status::ok) return status;
  if (const Status status = check_spec(*spec); status != Status::ok) return status;
  auto* made = new Gemm{.device = device, .kind = spec->kind, .type = spec->type, .n = spec->n, .k = spec->k};
  made->groups.assign(spec->groups, spec->groups + spec->count);
  const Status status = prepare(*made);
  if (status == Status::ok) {
    *gemm = made;
    return status;
  }
  const std::string text = last_error();
  gemm_destroy(made);
  return fail(status, text);
}

Status gemm_run(Stream* stream, Gemm* gemm) {
  if (gemm->groups.empty()) return Status::ok;
  if (const Status status = activate(stream->device); status != Status::ok) return status;
  if (const Status status = ready_blas(*stream); status != Status::ok) return status;
  const Table table(gemm->table, gemm->groups.size());
  return gemm->adds_products() ? multiply_and_add(*stream, *gemm, table) : multiply(*stream, *gemm, table);
}

Status gemm_destroy(Gemm* gemm) {
  if (!gemm) return Status::ok;
  Status status = activate(gemm->device);
  std::erase(gemm->device->scratch_users, gemm);
  const Status freed = check(cudaFree(gemm->table), "cudaFree");
  if (status == Status::ok) status = freed;
  delete gemm;
  return status;
}

Status gemm_scratch(const GemmSpec* spec, std::uint64_t* bytes) {
  const Gemm shape{.kind = spec->kind, .type = spec->type, .n = spec->n, .k = spec->k};
  *bytes = shape.adds_products() ? product_bytes(shape) * static_cast<std::uint64_t>(spec->count) : 0;
  return Status::ok;
}

}  // namespace cuda
}  // namespace relibra::kernels
