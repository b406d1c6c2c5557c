// Grouped GEMM by oneDNN's row-major sgemm, in tiles between which the caller's communication is polled.
#include <dnnl.h>

#include <algorithm>
#include <vector>

#include "kernels/bodies/host_device.h"
#include "kernels/reference/reference.h"

namespace relibra::kernels {

struct Gemm {
  GemmKind kind;
  Type type;
  std::int64_t n, k;
  std::vector<GemmGroup> groups;
};

namespace reference {
namespace {

/// One float32 product out = op(a) * op(b) (+ out), all of it or a tile.
struct Product {
  char transpose_a, transpose_b;
  std::int64_t m, n, k;  // out is (m, n), summed over k
  std::int64_t lda, ldb, ldc;
  float beta;
};

/// Output rows and columns of a tile: large, because every call packs its operands anew.
constexpr std::int64_t kTileRows = 1024, kTileColumns = 1024;

Product product_of(const Gemm& gemm, std::int64_t rows, bool accumulate) {
  switch (gemm.kind) {
    case GemmKind::forward:
      return {'N', 'T', rows, gemm.n, gemm.k, gemm.k, gemm.k, gemm.n, 0};
    case GemmKind::data_gradient:
      return {'N', 'N', rows, gemm.k, gemm.n, gemm.n, gemm.k, gemm.k, 0};
    case GemmKind::weight_gradient:
      break;
  }
  return {'T', 'N', gemm.n, gemm.k, rows, gemm.n, gemm.k, gemm.k, accumulate ? 1.0f : 0.0f};
}

Status multiply(const Device& device, const Product& p, const float* a, const float* b, float* out) {
  for (std::int64_t row = 0; row < p.m; row += kTileRows)
    for (std::int64_t column = 0; column < p.n; column += kTileColumns) {
      const float* tile_a = a + (p.transpose_a == 'N' ? row * p.lda : row);
      const float* tile_b = b + (p.transpose_b == 'N' ? column : column * p.ldb);
      const auto code = dnnl_sgemm(p.transpose_a, p.transpose_b, std::min(kTileRows, p.m - row),
                                   std::min(kTileColumns, p.n - column), p.k, 1.0f, tile_a, p.lda, tile_b,
                                   p.ldb, p.beta, out + row * p.ldc + column, p.ldc);
      if (code != dnnl_success)
        return fail(Status::failed, "dnnl_sgemm: status " + std::to_string(static_cast<int>(code)));
      if (device.poll) device.poll(device.poll_context);
    }
  return Status::ok;
}

std::vector<float> widened(const void* data, std::int64_t count) {
  const auto* from = static_cast<const Bf16*>(data);
  std::vector<float> wide(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = to_float(from[i]);
  return wide;
}

/// bfloat16 by way of float32, rounded once: for tests of that path on the host, not for speed.
Status run_bfloat16(const Device& device, const Gemm& gemm, const GemmGroup& group) {
  const std::int64_t width_a = gemm.kind == GemmKind::forward ? gemm.k : gemm.n;
  const std::int64_t rows_b = gemm.kind == GemmKind::weight_gradient ? group.rows : gemm.n;
  const auto a = widened(group.a, group.rows * width_a), b = widened(group.b, rows_b * gemm.k);
  const Product product = product_of(gemm, group.rows, group.accumulate);
  if (gemm.kind == GemmKind::weight_gradient)
    return multiply(device, product, a.data(), b.data(), static_cast<float*>(group.out));
  std::vector<float> out(static_cast<std::size_t>(product.m * product.n));
  const Status status = multiply(device, product, a.data(), b.data(), out.data());
  auto* narrow = static_cast<Bf16*>(group.out);
  for (std::size_t i = 0; i < out.size(); ++i) narrow[i] = from_float<Bf16>(out[i]);
  return status;
}

}  // namespace

Status gemm_create(Device*, const GemmSpec* spec, Gemm** gemm) {
  *gemm = new Gemm{spec->kind, spec->type, spec->n, spec->k, {spec->groups, spec->groups + spec->count}};
  return Status::ok;
}

Status gemm_run(Stream* stream, Gemm* gemm) {
  for (const GemmGroup& group : gemm->groups) {
    const Status status = gemm->type == Type::bfloat16
                              ? run_bfloat16(*stream->device, *gemm, group)
                              : multiply(*stream->device, product_of(*gemm, group.rows, group.accumulate),
                                         static_cast<const float*>(group.a),
                                         static_cast<const float*>(group.b), static_cast<float*>(group.out));
    if (status != Status::ok) return status;
  }
  return Status::ok;
}

Status gemm_destroy(Gemm* gemm) {
  delete gemm;
  return Status::ok;
}

Status gemm_scratch(const GemmSpec*, std::uint64_t* bytes) {
  *bytes = 0;
  return Status::ok;
}

}  // namespace reference
}  // namespace relibra::kernels
