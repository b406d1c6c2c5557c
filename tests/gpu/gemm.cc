// Grouped GEMMs of every kind against plain loops on the host.
#include "tests/gpu/sides.h"

namespace relibra::gpu_check {
namespace {

using kernels::GemmKind;

struct Kind {
  GemmKind kind;
  const char* name;
};
constexpr Kind kKinds[] = {{GemmKind::forward, "forward"},
                           {GemmKind::data_gradient, "data gradient"},
                           {GemmKind::weight_gradient, "weight gradient"}};

/// Elements of a, b and out of a group.
struct Elements {
  std::int64_t a, b, out;
};

Elements elements_of(GemmKind kind, std::int64_t rows, std::int64_t n, std::int64_t k) {
  if (kind == GemmKind::forward) return {rows * k, n * k, rows * n};
  if (kind == GemmKind::data_gradient) return {rows * n, n * k, rows * k};
  return {rows * n, rows * k, n * k};
}

void grouped(Sides& sides, const Kind& kind, Type type) {
  const std::int64_t n = sides.sizes.gemm_n, k = sides.sizes.gemm_k;
  const Type out_type = kind.kind == GemmKind::weight_gradient ? Type::float32 : type;
  std::vector<std::array<Twin, 3>> held;
  std::array<std::vector<kernels::GemmGroup>, 2> groups;
  std::vector<std::int64_t> outs;
  for (const std::int64_t rows : {std::int64_t{1}, sides.sizes.gemm_rows / 3, sides.sizes.gemm_rows}) {
    const Elements elements = elements_of(kind.kind, rows, n, k);
    held.push_back({sides.random(type, elements.a), sides.random(type, elements.b),
                    sides.random(out_type, elements.out)});
    outs.push_back(elements.out);
    const bool accumulate = kind.kind == GemmKind::weight_gradient && held.size() > 1;
    for (std::size_t s = 0; s < 2; ++s)
      groups[s].push_back(
          {rows, held.back()[0][s].data(), held.back()[1][s].data(), held.back()[2][s].data(), accumulate});
  }
  sides.both([&](const Side& side, std::size_t s) {
    const exec::Gemm gemm(
        side.device, {kind.kind, type, n, k, groups[s].data(), static_cast<std::int32_t>(groups[s].size())});
    gemm.run(side.stream.handle());
    side.stream.synchronize();
  });
  double error = 0;
  for (std::size_t g = 0; g < held.size(); ++g)
    error = std::max(error, sides.difference(held[g][2], out_type, outs[g]));
  sides.report.compare("", error, type == Type::float32 ? 1e-5 : 1e-2);
}

}  // namespace

void check_gemm(Sides& sides) {
  for (const Type type : {Type::float32, Type::bfloat16})
    for (const Kind& kind : kKinds)
      sides.report.run(std::string(name_of(type)) + " grouped GEMM, " + kind.name,
                       [&] { grouped(sides, kind, type); });
}

}  // namespace relibra::gpu_check
