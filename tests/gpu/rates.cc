// Rates beside those of bare calls: grouped GEMM against a cublasGemmEx a group, kernels that only move rows,
// and NCCL within a device, against a plain copy.
#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/gpu/bare.h"
#include "tests/gpu/sides.h"

namespace relibra::gpu_check {
namespace {

constexpr double kLeastGemm = 0.7, kLeastMoving = 0.6, kLeastNetwork = 0.3;

double seconds(const Side& side, int repeats, const std::function<void()>& work) {
  const exec::Event begin(side.device), end(side.device);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= repeats; ++i) {
    begin.record(side.stream.handle());
    work();
    end.record(side.stream.handle());
    side.stream.synchronize();
    if (i > 0) least = std::min(least, exec::elapsed(side.device, begin.handle(), end.handle()));
  }
  return least;
}

/// Memory of the device alone, written so that reading it is right; its values do not matter.
Buffer filled(const Side& side, std::size_t bytes) {
  Buffer buffer(side.device, bytes);
  side.ok(side.backend().fill(side.stream.handle(), buffer.data(), Type::bfloat16, 0.5f,
                              static_cast<std::int64_t>(bytes / 2)),
          "fill");
  side.stream.synchronize();
  return buffer;
}

/// Groups as loads differ: 1/2, 1 and 3/2 times the mean in turn.
std::vector<std::int64_t> uneven_rows(const Sizes& sizes) {
  std::vector<std::int64_t> rows;
  for (int g = 0; g < sizes.rate_groups; ++g) rows.push_back(sizes.rate_rows * (1 + g % 3) / 2);
  return rows;
}

void gemm_rate(Sides& sides, Type type) {
  const Side& side = sides.side[0];
  const Sizes& sizes = sides.sizes;
  const auto n = sizes.rate_n, k = sizes.rate_k, size = static_cast<std::int64_t>(kernels::size_of(type));
  const auto rows = uneven_rows(sizes);
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements * size); };
  const Buffer a = filled(side, bytes(total * k)), out = filled(side, bytes(total * n));
  const Buffer weights = filled(side, bytes(sizes.rate_groups * n * k));
  std::vector<kernels::GemmGroup> groups;
  std::int64_t first = 0;
  for (const std::int64_t count : rows) {
    const auto g = static_cast<std::int64_t>(groups.size());
    groups.push_back({count, a.data() + first * k * size, weights.data() + g * n * k * size,
                      out.data() + first * n * size, false});
    first += count;
  }
  const exec::Gemm gemm(side.device,
                        {kernels::GemmKind::forward, type, n, k, groups.data(), sizes.rate_groups});
  const double ours = seconds(side, sizes.repeats, [&] { gemm.run(side.stream.handle()); });
  const Bare bare(0);
  const double one_by_one = bare.seconds(sizes.repeats, [&] {
    for (const auto& group : groups) bare.multiply(type, group.rows, n, k, group.a, group.b, group.out);
  });
  const double whole = bare.seconds(
      sizes.repeats, [&] { bare.multiply(type, total, n, k, a.data(), weights.data(), out.data()); });
  const double work = 2.0 * static_cast<double>(total * n * k) * 1e-12;
  sides.report.rate("a cublasGemmEx a group", work / ours, work / one_by_one, "TFLOP/s", kLeastGemm);
  sides.report.show("one product of all rows, bare", work / whole, "TFLOP/s");
}

void moving_rate(Sides& sides) {
  const Side& side = sides.side[0];
  const Sizes& sizes = sides.sizes;
  const std::int64_t width = sizes.wide, rows = static_cast<std::int64_t>(sizes.copy_bytes) / (2 * width);
  const auto bytes = static_cast<std::size_t>(2 * rows * width);
  const Buffer in = filled(side, bytes), out = filled(side, bytes);
  std::vector<std::int32_t> order(static_cast<std::size_t>(rows)), offset(order.size() + 1);
  for (std::size_t r = 0; r < order.size(); ++r)
    order[r] = static_cast<std::int32_t>((r * 7919) % order.size());
  std::iota(offset.begin(), offset.end(), 0);
  const Buffer index = exec::upload(side.stream, std::span<const std::int32_t>(order));
  const Buffer offsets = exec::upload(side.stream, std::span<const std::int32_t>(offset));
  const Bare bare(0);
  const double copied = bare.seconds(sizes.repeats, [&] { bare.copy(out.data(), in.data(), bytes); });
  const double moved = 2 * static_cast<double>(bytes) * 1e-9;  // read once, written once
  const kernels::GatherRows gather{Type::bfloat16,           rows,      width,
                                   index.as<std::int32_t>(), in.data(), out.data()};
  const double gathered = seconds(side, sizes.repeats, [&] {
    side.ok(side.backend().gather_rows(side.stream.handle(), &gather), "gather_rows");
  });
  sides.report.rate("gather_rows", moved / gathered, moved / copied, "GB/s", kLeastMoving);
  const kernels::CombineRows combine{
      Type::bfloat16, rows,      width,     offsets.as<std::int32_t>(), index.as<std::int32_t>(), nullptr,
      nullptr,        in.data(), out.data()};
  const double combined = seconds(side, sizes.repeats, [&] {
    side.ok(side.backend().combine_rows(side.stream.handle(), &combine), "combine_rows");
  });
  sides.report.rate("combine_rows", moved / combined, moved / copied, "GB/s", kLeastMoving);
}

void network_rate(Sides& sides) {
  const Side& side = sides.side[0];
  const std::size_t bytes = sides.sizes.copy_bytes;
  const Buffer in = filled(side, bytes), out = filled(side, bytes);
  kernels::NetworkId id;
  kernels::Network* network = nullptr;
  side.ok(side.backend().network_id(&id), "network_id");
  side.ok(side.backend().network_create(side.device.handle(), &id, 1, 0, 30, &network), "network_create");
  const kernels::NetworkSend send{0, in.data(), bytes};
  const kernels::NetworkReceive receive{0, out.data(), bytes};
  const double exchanged = seconds(side, sides.sizes.repeats, [&] {
    side.ok(side.backend().network_exchange(network, side.stream.handle(), &send, 1, &receive, 1),
            "network_exchange");
  });
  const Bare bare(0);
  const double copied = bare.seconds(sides.sizes.repeats, [&] { bare.copy(out.data(), in.data(), bytes); });
  const double moved = 2 * static_cast<double>(bytes) * 1e-9;
  sides.report.rate("", moved / exchanged, moved / copied, "GB/s", kLeastNetwork);
  side.ok(side.backend().network_destroy(network), "network_destroy");
}

}  // namespace

void check_rates(Sides& sides) {
  for (const Type type : {Type::bfloat16, Type::float32})
    sides.report.run(std::string(name_of(type)) + " grouped GEMM rate", [&] { gemm_rate(sides, type); });
  sides.report.run("rate", [&] { moving_rate(sides); });
  sides.report.run("NCCL to itself, rate", [&] { network_rate(sides); });
}

}  // namespace relibra::gpu_check
