// Memory, streams, events and the network of one device.
#include <numeric>

#include "tests/gpu/sides.h"

namespace relibra::gpu_check {
namespace {

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

void copies(const Sides& sides) {
  const Side& side = sides.side[0];
  const auto values = counting(100001);
  const std::size_t bytes = values.size() * sizeof(float);
  const Buffer there = exec::upload(side.stream, std::span<const float>(values));
  void* host = nullptr;
  side.ok(side.backend().allocate(side.device.handle(), kernels::Memory::host, bytes, &host), "allocate");
  side.stream.copy(host, there.data(), bytes);
  side.stream.synchronize();
  const auto* back = static_cast<const float*>(host);
  const bool same = std::equal(values.begin(), values.end(), back);
  side.ok(side.backend().free(side.device.handle(), kernels::Memory::host, host), "free");
  sides.report.expect("to the device and back", same, "other values");
}

/// A long row of work on one stream; the other stream waits for it, or the sum comes out too small.
void waits(const Sides& sides) {
  const Side& side = sides.side[0];
  const exec::Stream other(side.device);
  const exec::Event done(side.device);
  const auto& backend = side.backend();
  const std::int64_t count = sides.sizes.rows * 64;
  const Buffer sum(side.device, static_cast<std::size_t>(count) * 4), one(side.device, sum.bytes());
  side.ok(backend.fill(side.stream.handle(), one.data(), Type::float32, 1, count), "fill");
  side.ok(backend.fill(side.stream.handle(), sum.data(), Type::float32, 0, count), "fill");
  for (int i = 0; i < 200; ++i)
    side.ok(backend.accumulate(side.stream.handle(), sum.as<float>(), one.as<float>(), count), "accumulate");
  done.record(side.stream.handle());
  side.ok(backend.stream_wait(other.handle(), done.handle()), "stream_wait");
  side.ok(backend.accumulate(other.handle(), sum.as<float>(), one.as<float>(), count), "accumulate");
  const auto values = exec::download<float>(other, sum.data(), static_cast<std::size_t>(count));
  sides.report.expect("a stream waits for another", values == std::vector<float>(values.size(), 201.0f),
                      "an early start");
  sides.report.expect("events have passed", done.passed(), "one that has not");
}

void errors(const Sides& sides) {
  const Side& side = sides.side[0];
  void* data = nullptr;
  const auto status =
      side.backend().allocate(side.device.handle(), kernels::Memory::device, std::uint64_t{1} << 60, &data);
  sides.report.expect("too much memory is refused", status == kernels::Status::out_of_memory,
                      side.backend().last_error());
}

kernels::Status join(const Side& side, int size, double timeout, kernels::Network** network) {
  kernels::NetworkId id;
  side.ok(side.backend().network_id(&id), "network_id");
  return side.backend().network_create(side.device.handle(), &id, size, 0, timeout, network);
}

void to_itself(const Sides& sides) {
  const Side& side = sides.side[0];
  kernels::Network* network = nullptr;
  side.ok(join(side, 1, 30, &network), "network_create");
  const auto values = counting(70001);
  const Buffer out = exec::upload(side.stream, std::span<const float>(values));
  const Buffer in(side.device, out.bytes());
  const kernels::NetworkSend sends[] = {{0, out.data(), 4096}, {0, out.data() + 4096, out.bytes() - 4096}};
  const kernels::NetworkReceive receives[] = {{0, in.data(), 4096}, {0, in.data() + 4096, in.bytes() - 4096}};
  side.ok(side.backend().network_exchange(network, side.stream.handle(), sends, 2, receives, 2),
          "network_exchange");
  const auto got = exec::download<float>(side.stream, in.data(), values.size());
  sides.report.expect("sends to itself", got == values, "other values");
  side.ok(side.backend().network_poll(network), "network_poll");
  side.ok(side.backend().network_destroy(network), "network_destroy");
}

void lost_peer(const Sides& sides) {
  kernels::Network* network = nullptr;
  const auto status = join(sides.side[0], 2, 2, &network);
  sides.report.expect("a peer that does not come is an error", status != kernels::Status::ok, "a network");
}

}  // namespace

void check_runtime(Sides& sides) {
  sides.report.run("copies", [&] { copies(sides); });
  sides.report.run("streams", [&] { waits(sides); });
  sides.report.run("errors", [&] { errors(sides); });
}

void check_network(Sides& sides) {
  sides.report.run("NCCL", [&] { to_itself(sides); });
  sides.report.run("NCCL", [&] { lost_peer(sides); });
}

}  // namespace relibra::gpu_check
