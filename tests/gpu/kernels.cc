// Every kernel against the reference backend, on rows that vector loads fit and on rows that they don't.
#include <numeric>

#include "tests/gpu/sides.h"

namespace relibra::gpu_check {
namespace {

std::int64_t size(Type type) {
  return static_cast<std::int64_t>(kernels::size_of(type));
}

/// One rounding of an output: a unit in the last place, and a little for the order of sums.
double limit(Type type) {
  return type == Type::float32 ? 4e-6 : 8e-3;
}

void gather(Sides& sides, Type type, std::int64_t width) {
  const std::int64_t rows = sides.sizes.rows;
  const Twin in = sides.random(type, rows * width), index = sides.random_indices(2 * rows, rows);
  const Twin out = sides.empty(2 * rows * width * size(type));
  sides.both([&](const Side& side, std::size_t s) {
    const kernels::GatherRows args{type,         2 * rows,     width, index[s].as<std::int32_t>(),
                                   in[s].data(), out[s].data()};
    side.ok(side.backend().gather_rows(side.stream.handle(), &args), "gather_rows");
  });
  sides.report.compare("gather_rows", sides.difference(out, type, 2 * rows * width), 0);
}

void combine(Sides& sides, Type type, std::int64_t width) {
  const std::int64_t rows = sides.sizes.rows, out_rows = rows / 2;
  std::vector<std::int32_t> offset{0};
  for (std::int64_t r = 0; r < out_rows; ++r)
    offset.push_back(offset.back() + static_cast<std::int32_t>(sides.draw.below(9)));
  const Twin offsets = sides.upload(offset), index = sides.random_indices(offset.back() + 1, rows);
  const Twin weight = sides.random(Type::float32, rows), in = sides.random(type, rows * width);
  const Twin base = sides.random(type, out_rows * width), out = sides.empty(out_rows * width * size(type));
  sides.both([&](const Side& side, std::size_t s) {
    const kernels::CombineRows args{type,
                                    out_rows,
                                    width,
                                    offsets[s].as<std::int32_t>(),
                                    index[s].as<std::int32_t>(),
                                    weight[s].as<float>(),
                                    base[s].data(),
                                    in[s].data(),
                                    out[s].data()};
    side.ok(side.backend().combine_rows(side.stream.handle(), &args), "combine_rows");
  });
  sides.report.compare("combine_rows", sides.difference(out, type, out_rows * width), limit(type));
}

void swiglu(Sides& sides, Type type, std::int64_t width) {
  const std::int64_t rows = sides.sizes.rows;
  const Twin gate_up = sides.random(type, 2 * rows * width), hidden = sides.empty(rows * width * size(type));
  const Twin d = sides.random(type, rows * width), weight = sides.random(Type::float32, rows);
  const Twin grad_weight = sides.empty(rows * 4);
  sides.both([&](const Side& side, std::size_t s) {
    const kernels::SwigluForward forward{type, rows, width, gate_up[s].data(), hidden[s].data()};
    side.ok(side.backend().swiglu_forward(side.stream.handle(), &forward), "swiglu_forward");
    const kernels::SwigluBackward backward{type,
                                           rows,
                                           width,
                                           gate_up[s].data(),
                                           d[s].data(),
                                           weight[s].as<float>(),
                                           gate_up[s].data(),
                                           d[s].data(),
                                           grad_weight[s].as<float>()};
    side.ok(side.backend().swiglu_backward(side.stream.handle(), &backward), "swiglu_backward");
  });
  sides.report.compare("swiglu_forward", sides.difference(hidden, type, rows * width), limit(type));
  sides.report.compare("swiglu_backward", sides.difference(gate_up, type, 2 * rows * width), limit(type));
  sides.report.compare("swiglu_backward, hidden", sides.difference(d, type, rows * width), limit(type));
  sides.report.compare("swiglu_backward, gate weights", sides.difference(grad_weight, Type::float32, rows),
                       2e-5);
}

void elementwise(Sides& sides, Type type) {
  const std::int64_t count = sides.sizes.rows * 37 + 1;
  const Twin in = sides.random(Type::float32, count), out = sides.empty(count * 4),
             narrow = sides.empty(count * size(type));
  sides.both([&](const Side& side, std::size_t s) {
    const auto& backend = side.backend();
    const auto stream = side.stream.handle();
    side.ok(backend.fill(stream, out[s].data(), Type::float32, 0.25f, count), "fill");
    side.ok(backend.accumulate(stream, out[s].as<float>(), in[s].as<float>(), count), "accumulate");
    side.ok(backend.convert(stream, narrow[s].data(), type, out[s].data(), Type::float32, count), "convert");
  });
  sides.report.compare("fill and accumulate", sides.difference(out, Type::float32, count), 0);
  sides.report.compare("convert", sides.difference(narrow, type, count), 0);
}

}  // namespace

void check_kernels(Sides& sides) {
  for (const Type type : {Type::float32, Type::bfloat16}) {
    for (const std::int64_t width : {sides.sizes.wide, std::int64_t{37}})
      sides.report.run(std::string(name_of(type)) + " x " + std::to_string(width), [&] {
        gather(sides, type, width);
        combine(sides, type, width);
        swiglu(sides, type, width);
      });
    sides.report.run(name_of(type), [&] { elementwise(sides, type); });
  }
}

}  // namespace relibra::gpu_check
