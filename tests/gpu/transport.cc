// The engine's transport between all devices of the machine, a thread each in place of a process.
#include <exception>
#include <thread>

#include "lib/base/timer.h"
#include "lib/exec/nccl_transport.h"
#include "tests/gpu/sides.h"

namespace relibra::gpu_check {
namespace {

using exec::Channel;

struct Rank {
  Rank(const kernels::Backend& backend, int index, int devices, const exec::ChannelIds& ids)
      : side(backend, index),
        self(index),
        devices(devices),
        transport(side.device, {devices, 1, devices}, ReplicaDomain::node, RankId(index), ids,
                  {.timeout_seconds = 30}) {}

  /// Element of the message `from` -> `to`.
  static std::int32_t value(int from, int to) { return 1000 * from + to; }

  bool exchange_all(Channel channel, std::size_t count) {
    std::vector<Buffer> out, in;
    exec::Round round;
    for (int peer = 0; peer < devices; ++peer) {
      const std::vector<std::int32_t> values(count, value(self, peer));
      out.push_back(exec::upload(side.stream, std::span<const std::int32_t>(values)));
      in.emplace_back(side.device, count * 4);
      round.sends.push_back({RankId(peer), out.back().data(), count * 4});
      round.receives.push_back({RankId(peer), in.back().data(), count * 4});
    }
    transport.barrier(channel, side.stream.handle());
    transport.wait(transport.begin(channel, std::span(&round, 1), side.stream.handle()),
                   side.stream.handle());
    transport.finish(side.stream.handle());
    bool right = true;
    for (int peer = 0; peer < devices; ++peer)
      right &= exec::download<std::int32_t>(side.stream, in[static_cast<std::size_t>(peer)].data(), count) ==
               std::vector<std::int32_t>(count, value(peer, self));
    return right;
  }

  /// GB/s that this rank sends while everyone sends `bytes` to everyone else.
  double rate(std::size_t bytes, int repeats) {
    std::vector<Buffer> in;
    const std::vector<std::byte> zeros(bytes);
    const Buffer out = exec::upload(side.stream, std::span<const std::byte>(zeros));
    exec::Round round;
    for (int peer = 0; peer < devices; ++peer) {
      if (peer == self) continue;
      in.emplace_back(side.device, bytes);
      round.sends.push_back({RankId(peer), out.data(), bytes});
      round.receives.push_back({RankId(peer), in.back().data(), bytes});
    }
    Timer timer;
    for (int i = 0; i <= repeats; ++i) {
      if (i == 1) timer.restart();
      transport.wait(transport.begin(Channel::tokens, std::span(&round, 1), side.stream.handle()),
                     side.stream.handle());
      transport.finish(side.stream.handle());
    }
    return static_cast<double>(bytes) * (devices - 1) * repeats / timer.seconds() * 1e-9;
  }

  Side side;
  int self, devices;
  exec::NcclTransport transport;
};

struct Outcome {
  bool tokens = false, weights = false;
  double rate = 0;
  std::exception_ptr thrown;
};

void run_rank(const kernels::Backend& backend, int index, int devices, const exec::ChannelIds& ids,
              const Sizes& sizes, Outcome& outcome) {
  try {
    Rank rank(backend, index, devices, ids);
    outcome.tokens = rank.exchange_all(Channel::tokens, 5000);
    outcome.weights = rank.exchange_all(Channel::weights, 7);
    outcome.rate = rank.rate(sizes.copy_bytes / 4, sizes.repeats);
  } catch (...) {
    outcome.thrown = std::current_exception();
  }
}

void run_all(const kernels::Backend& backend, int devices, Report& report, const Sizes& sizes) {
  exec::ChannelIds ids;
  for (auto& id : ids) exec::check(backend, backend.network_id(&id), "network_id");
  std::vector<Outcome> outcomes(static_cast<std::size_t>(devices));
  std::vector<std::thread> threads;
  for (int d = 0; d < devices; ++d)
    threads.emplace_back(run_rank, std::cref(backend), d, devices, std::cref(ids), std::cref(sizes),
                         std::ref(outcomes[static_cast<std::size_t>(d)]));
  for (std::thread& thread : threads) thread.join();
  bool tokens = true, weights = true;
  double sum = 0;
  for (const Outcome& outcome : outcomes) {
    if (outcome.thrown) std::rethrow_exception(outcome.thrown);
    tokens &= outcome.tokens;
    weights &= outcome.weights;
    sum += outcome.rate;
  }
  report.expect("tokens arrive", tokens, "other values");
  report.expect("weights arrive", weights, "other values");
  report.show("all to all, a device sends", sum / devices, "GB/s");
}

}  // namespace

void check_transport(const kernels::Backend& cuda, int devices, Report& report, const Sizes& sizes) {
  if (devices < 2) {
    report.skip("transport between devices", "one device");
    return;
  }
  report.run("transport between " + std::to_string(devices) + " devices",
             [&] { run_all(cuda, devices, report, sizes); });
}

}  // namespace relibra::gpu_check
