// The contract of kernels/backend.h, on every backend that is there: worked examples, then random ones
// against plain loops in double.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kernels/bodies/swiglu.h"
#include "lib/base/random.h"
#include "lib/exec/device.h"
#include "tests/support/backends.h"

namespace relibra::kernels {
namespace {

using exec::Buffer;

class Contract : public ::testing::TestWithParam<std::tuple<const Backend*, Type>> {
 protected:
  const Backend& backend() const { return *std::get<0>(GetParam()); }
  Type type() const { return std::get<1>(GetParam()); }
  /// Relative error that one rounding of an output leaves.
  double tolerance() const { return type() == Type::float32 ? 2e-6 : 5e-3; }

  /// Values in the element type, on the device.
  Buffer rows(const std::vector<float>& values) {
    if (type() == Type::float32) return exec::upload(stream, std::span<const float>(values));
    std::vector<Bf16> narrow;
    for (const float value : values) narrow.push_back(from_float<Bf16>(value));
    return exec::upload(stream, std::span<const Bf16>(narrow));
  }
  /// Values as the element type holds them.
  std::vector<float> rounded(std::vector<float> values) const {
    if (type() == Type::bfloat16)
      for (float& value : values) value = to_float(from_float<Bf16>(value));
    return values;
  }
  std::vector<float> host(const void* data, std::size_t count) {
    if (type() == Type::float32) return exec::download<float>(stream, data, count);
    std::vector<float> values;
    for (const Bf16 value : exec::download<Bf16>(stream, data, count)) values.push_back(to_float(value));
    return values;
  }
  Buffer ints(const std::vector<std::int32_t>& values) {
    return exec::upload(stream, std::span<const std::int32_t>(values));
  }
  Buffer floats(const std::vector<float>& values) {
    return exec::upload(stream, std::span<const float>(values));
  }
  Buffer empty(std::size_t elements) { return Buffer(device, elements * size_of(type())); }
  void ok(Status status) { device.check(status, "kernel under test"); }

  std::vector<float> random_values(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random.normal());
    return rounded(values);
  }

  exec::Device device{backend()};
  exec::Stream stream{device};
  Random random{7};
};

void expect_close(const std::vector<float>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  double scale = 0;
  for (const double value : want) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * std::max(scale, 1.0)) << "element " << i;
}

TEST_P(Contract, GatherPicksRows) {
  const auto in = rows({0, 1, 10, 11, 20, 21});
  const auto index = ints({2, 0, 2});
  const auto out = empty(6);
  const GatherRows args{type(), 3, 2, index.as<std::int32_t>(), in.data(), out.data()};
  ok(backend().gather_rows(stream.handle(), &args));
  EXPECT_EQ(host(out.data(), 6), (std::vector<float>{20, 21, 0, 1, 20, 21}));
}

// The example of CombineRows: .5*30 + 1*10 = 25; a row without terms is its base, here none: 0.
TEST_P(Contract, CombineAddsWeightedRowsInOrder) {
  const auto in = rows({10, 20, 30});
  const auto offset = ints({0, 2, 2}), index = ints({2, 0});
  const auto weight = floats({1, 1, .5f});
  const auto out = empty(2);
  CombineRows args{
      type(),  2,         1,         offset.as<std::int32_t>(), index.as<std::int32_t>(), weight.as<float>(),
      nullptr, in.data(), out.data()};
  ok(backend().combine_rows(stream.handle(), &args));
  EXPECT_EQ(host(out.data(), 2), (std::vector<float>{25, 0}));

  // In place on its base and without weights: 25 + 30 + 10 = 65, 0.
  args.base = out.data();
  args.weight = nullptr;
  ok(backend().combine_rows(stream.handle(), &args));
  EXPECT_EQ(host(out.data(), 2), (std::vector<float>{65, 0}));
}

TEST_P(Contract, CombineOfRandomRowsOfEveryWidth) {
  for (const std::int64_t width : {1, 3, 64, 70, 257}) {
    const std::int64_t in_rows = 40, out_rows = 30;
    const auto in = random_values(static_cast<std::size_t>(in_rows * width));
    const auto base = random_values(static_cast<std::size_t>(out_rows * width));
    std::vector<std::int32_t> offset{0}, index;
    std::vector<float> weight;
    for (int r = 0; r < out_rows; ++r) {
      for (std::uint32_t j = random.below(9); j > 0; --j)
        index.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(in_rows))));
      offset.push_back(static_cast<std::int32_t>(index.size()));
    }
    for (int r = 0; r < in_rows; ++r) weight.push_back(static_cast<float>(random.uniform()));
    std::vector<double> want(base.begin(), base.end());
    for (std::size_t r = 0; r + 1 < offset.size(); ++r)
      for (auto j = offset[r]; j < offset[r + 1]; ++j)
        for (std::int64_t c = 0; c < width; ++c) {
          const auto from = index[static_cast<std::size_t>(j)];
          want[r * static_cast<std::size_t>(width) + static_cast<std::size_t>(c)] +=
              static_cast<double>(weight[static_cast<std::size_t>(from)]) *
              in[static_cast<std::size_t>(from * width + c)];
        }
    const auto d_in = rows(in), d_base = rows(base), d_offset = ints(offset), d_index = ints(index);
    const auto d_weight = floats(weight);
    const auto out = empty(base.size());
    const CombineRows args{type(),
                           out_rows,
                           width,
                           d_offset.as<std::int32_t>(),
                           d_index.as<std::int32_t>(),
                           d_weight.as<float>(),
                           d_base.data(),
                           d_in.data(),
                           out.data()};
    ok(backend().combine_rows(stream.handle(), &args));
    expect_close(host(out.data(), base.size()), want, tolerance());
  }
}

// silu(2) = 2 / (1 + e^-2) = 1.7615942; times 3 is 5.2847825. silu(0) = 0.
TEST_P(Contract, SwigluForwardOfTwoColumns) {
  const auto gate_up = rows({2, 0, 3, 5});
  const auto hidden = empty(2);
  const SwigluForward args{type(), 1, 2, gate_up.data(), hidden.data()};
  ok(backend().swiglu_forward(stream.handle(), &args));
  expect_close(host(hidden.data(), 2), {5.2847825, 0}, tolerance());
}

TEST_P(Contract, SwigluBackwardIsTheDerivative) {
  for (const std::int64_t width : {1, 16, 37}) {
    const std::int64_t count = 5;
    const auto gate_up = random_values(static_cast<std::size_t>(2 * count * width));
    const auto d = random_values(static_cast<std::size_t>(count * width));
    std::vector<float> weight;
    for (int r = 0; r < count; ++r) weight.push_back(static_cast<float>(random.uniform()));
    std::vector<double> grad(gate_up.size()), weighted(d.size()), grad_weight(weight.size());
    for (std::size_t r = 0; r < weight.size(); ++r)
      for (std::size_t c = 0; c < static_cast<std::size_t>(width); ++c) {
        const auto w = static_cast<std::size_t>(width);
        const double g = gate_up[r * 2 * w + c], u = gate_up[r * 2 * w + w + c], di = d[r * w + c];
        const double s = 1 / (1 + std::exp(-g)), hidden = g * s * u;
        grad[r * 2 * w + c] = weight[r] * di * u * (s + g * s * (1 - s));
        grad[r * 2 * w + w + c] = weight[r] * di * g * s;
        weighted[r * w + c] = weight[r] * hidden;
        grad_weight[r] += di * hidden;
      }
    const auto d_gate_up = rows(gate_up), d_d = rows(d);
    const auto d_weight = floats(weight);
    const Buffer d_grad_weight(device, weight.size() * sizeof(float));
    // In place, as the engine calls it.
    const SwigluBackward args{type(),           count,      width,
                              d_gate_up.data(), d_d.data(), d_weight.as<float>(),
                              d_gate_up.data(), d_d.data(), d_grad_weight.as<float>()};
    ok(backend().swiglu_backward(stream.handle(), &args));
    expect_close(host(d_gate_up.data(), gate_up.size()), grad, tolerance());
    expect_close(host(d_d.data(), d.size()), weighted, tolerance());
    expect_close(exec::download<float>(stream, d_grad_weight.data(), weight.size()), grad_weight, 1e-5);
  }
}

TEST_P(Contract, AccumulateConvertAndFill) {
  const Buffer out(device, 3 * sizeof(float));
  ok(backend().fill(stream.handle(), out.data(), Type::float32, 2.0f, 3));
  const auto in = floats({1, 2, -4});
  ok(backend().accumulate(stream.handle(), out.as<float>(), in.as<float>(), 3));
  ok(backend().accumulate(stream.handle(), out.as<float>(), in.as<float>(), 3));
  EXPECT_EQ(exec::download<float>(stream, out.data(), 3), (std::vector<float>{4, 6, -6}));
  const auto narrow = empty(3);
  ok(backend().convert(stream.handle(), narrow.data(), type(), out.data(), Type::float32, 3));
  EXPECT_EQ(host(narrow.data(), 3), (std::vector<float>{4, 6, -6}));
  const Buffer wide(device, 3 * sizeof(float));
  ok(backend().convert(stream.handle(), wide.data(), Type::float32, narrow.data(), type(), 3));
  EXPECT_EQ(exec::download<float>(stream, wide.data(), 3), (std::vector<float>{4, 6, -6}));
}

/// out = op(a) op(b) of one group in double; op by the kind.
std::vector<double> product(GemmKind kind, std::int64_t rows, std::int64_t n, std::int64_t k,
                            const std::vector<float>& a, const std::vector<float>& b) {
  const auto sum = [&](std::int64_t m, std::int64_t columns, std::int64_t depth, auto&& left, auto&& right) {
    std::vector<double> out(static_cast<std::size_t>(m * columns));
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        for (std::int64_t t = 0; t < depth; ++t)
          out[static_cast<std::size_t>(i * columns + j)] +=
              static_cast<double>(a[static_cast<std::size_t>(left(i, t))]) *
              b[static_cast<std::size_t>(right(t, j))];
    return out;
  };
  using I = std::int64_t;
  switch (kind) {
    case GemmKind::forward:
      return sum(
          rows, n, k, [&](I i, I t) { return i * k + t; }, [&](I t, I j) { return j * k + t; });
    case GemmKind::data_gradient:
      return sum(
          rows, k, n, [&](I i, I t) { return i * n + t; }, [&](I t, I j) { return t * k + j; });
    case GemmKind::weight_gradient:
      break;
  }
  return sum(
      n, k, rows, [&](I i, I t) { return t * n + i; }, [&](I t, I j) { return t * k + j; });
}

TEST_P(Contract, GroupedGemmOfEveryKind) {
  const std::int64_t n = 24, k = 40;
  const std::vector<std::int64_t> group_rows{1, 17, 130};
  for (const GemmKind kind : {GemmKind::forward, GemmKind::data_gradient, GemmKind::weight_gradient}) {
    const bool to_weights = kind == GemmKind::weight_gradient;
    std::vector<Buffer> held;
    std::vector<GemmGroup> groups;
    std::vector<std::vector<double>> want;
    for (const std::int64_t count : group_rows) {
      const auto a = random_values(static_cast<std::size_t>(count * (kind == GemmKind::forward ? k : n)));
      const auto b = random_values(static_cast<std::size_t>((to_weights ? count : n) * k));
      want.push_back(product(kind, count, n, k, a, b));
      held.push_back(rows(a));
      held.push_back(rows(b));
      // Weight gradients of all but the first group are added to what is there, 0.5.
      const bool accumulate = to_weights && groups.size() > 0;
      held.push_back(to_weights ? floats(std::vector<float>(want.back().size(), 0.5f))
                                : empty(want.back().size()));
      if (accumulate)
        for (double& value : want.back()) value += 0.5;
      groups.push_back({count, held[held.size() - 3].data(), held[held.size() - 2].data(),
                        held[held.size() - 1].data(), accumulate});
    }
    const GemmSpec spec{kind, type(), n, k, groups.data(), static_cast<std::int32_t>(groups.size())};
    const exec::Gemm gemm(device, spec);
    gemm.run(stream.handle());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto got = to_weights ? exec::download<float>(stream, groups[g].out, want[g].size())
                                  : host(groups[g].out, want[g].size());
      expect_close(got, want[g], type() == Type::float32 ? 1e-5 : 8e-3);
    }
  }
}

TEST_P(Contract, GemmWithoutGroupsDoesNothing) {
  const GemmSpec spec{GemmKind::forward, type(), 8, 8, nullptr, 0};
  const exec::Gemm gemm(device, spec);
  EXPECT_NO_THROW(gemm.run(stream.handle()));
}

TEST_P(Contract, EventsOrderStreamsAndTellTime) {
  exec::Stream other(device);
  const exec::Event before(device), after(device);
  before.record(stream.handle());
  const Buffer out(device, 4 * sizeof(float));
  ok(backend().fill(stream.handle(), out.data(), Type::float32, 3.0f, 4));
  after.record(stream.handle());
  ok(backend().stream_wait(other.handle(), after.handle()));
  EXPECT_EQ(exec::download<float>(other, out.data(), 4), (std::vector<float>(4, 3.0f)));
  stream.synchronize();
  EXPECT_TRUE(after.passed());
  EXPECT_GE(exec::elapsed(device, before.handle(), after.handle()), 0.0);
}

TEST_P(Contract, ErrorsSayWhatFailed) {
  Device* none = nullptr;
  EXPECT_NE(backend().device_open(4096, &none), Status::ok);
  EXPECT_NE(std::string(backend().last_error()), "");
  void* data = nullptr;
  EXPECT_EQ(backend().allocate(device.handle(), Memory::device, std::uint64_t{1} << 60, &data),
            Status::out_of_memory);
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<const Backend*, Type>>& info) {
  return std::string(std::get<0>(info.param)->name) +
         (std::get<1>(info.param) == Type::float32 ? "_float32_" : "_bfloat16_") + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Backends, Contract,
                         ::testing::Combine(::testing::ValuesIn(relibra::testing::test_backends()),
                                            ::testing::Values(Type::float32, Type::bfloat16)),
                         name_of);

// Two units in the last place of float32 are 2.4e-7.
TEST(ExpOf, IsExpToTwoUnitsInTheLastPlace) {
  for (float x = -86.9f; x < 87.9f; x += 0.0137f)
    ASSERT_NEAR(exp_of(x) / std::exp(static_cast<double>(x)), 1.0, 2.4e-7) << x;
  EXPECT_TRUE(std::isnan(exp_of(NAN)));
  EXPECT_GT(exp_of(1000.0f), 1e38f);
  EXPECT_LT(exp_of(-1000.0f), 1e-37f);
}

TEST(Bf16, RoundsToTheNearestEven) {
  // One unit of bfloat16 at 1 is 2^-7; halfway cases go to the even neighbour.
  EXPECT_EQ(to_float(from_float<Bf16>(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_EQ(to_float(from_float<Bf16>(1.0f + 3 * 0x1p-8f)), 1.0f + 2 * 0x1p-7f);
  EXPECT_EQ(to_float(from_float<Bf16>(1.0f + 0x1p-8f + 0x1p-20f)), 1.0f + 0x1p-7f);
  EXPECT_TRUE(std::isnan(to_float(from_float<Bf16>(NAN))));
}

}  // namespace
}  // namespace relibra::kernels
