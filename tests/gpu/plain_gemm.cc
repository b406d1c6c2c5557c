// The reference backend's grouped GEMM as plain loops, in place of kernels/reference/gemm.cc, so that
// gpu-check needs no oneDNN.
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

float load(const void* data, std::int64_t i, Type type) {
  return type == Type::float32 ? static_cast<const float*>(data)[i]
                               : to_float(static_cast<const Bf16*>(data)[i]);
}

/// A matrix as rows of floats; transposed where asked.
std::vector<float> matrix(const void* data, std::int64_t rows, std::int64_t columns, Type type,
                          bool transposed) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      values[static_cast<std::size_t>(transposed ? c * rows + r : r * columns + c)] =
          load(data, r * columns + c, type);
  return values;
}

/// out (m, columns) [+]= left (m, depth) * right (depth, columns), a row at a time, summed in double.
void multiply(const std::vector<float>& left, const std::vector<float>& right, std::int64_t m,
              std::int64_t columns, std::int64_t depth, void* out, Type out_type, bool add) {
#pragma omp parallel for
  for (std::int64_t i = 0; i < m; ++i) {
    std::vector<double> sum(static_cast<std::size_t>(columns));
    for (std::int64_t t = 0; t < depth; ++t) {
      const double factor = left[static_cast<std::size_t>(i * depth + t)];
      const float* row = right.data() + t * columns;
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += factor * row[j];
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t at = i * columns + j;
      const double old = add ? static_cast<double>(load(out, at, out_type)) : 0.0;
      const auto value = static_cast<float>(sum[static_cast<std::size_t>(j)] + old);
      if (out_type == Type::float32)
        static_cast<float*>(out)[at] = value;
      else
        static_cast<Bf16*>(out)[at] = from_float<Bf16>(value);
    }
  }
}

void run(const Gemm& gemm, const GemmGroup& group) {
  const std::int64_t n = gemm.n, k = gemm.k, rows = group.rows;
  switch (gemm.kind) {
    case GemmKind::forward:
      return multiply(matrix(group.a, rows, k, gemm.type, false), matrix(group.b, n, k, gemm.type, true),
                      rows, n, k, group.out, gemm.type, false);
    case GemmKind::data_gradient:
      return multiply(matrix(group.a, rows, n, gemm.type, false), matrix(group.b, n, k, gemm.type, false),
                      rows, k, n, group.out, gemm.type, false);
    case GemmKind::weight_gradient:
      return multiply(matrix(group.a, rows, n, gemm.type, true), matrix(group.b, rows, k, gemm.type, false),
                      n, k, rows, group.out, Type::float32, group.accumulate);
  }
}

}  // namespace

Status gemm_create(Device*, const GemmSpec* spec, Gemm** gemm) {
  *gemm = new Gemm{spec->kind, spec->type, spec->n, spec->k, {spec->groups, spec->groups + spec->count}};
  return Status::ok;
}

Status gemm_run(Stream*, Gemm* gemm) {
  for (const GemmGroup& group : gemm->groups) run(*gemm, group);
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
