#include "lib/exec/reorder.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace relibra::exec {
namespace {

constexpr std::size_t kTensors = 3;  // weights, first moment, second moment

/// The slots of a rank in one layer: what is in each, and its three tensors on the device.
struct State {
  std::span<const ExpertId> experts;
  std::array<std::byte*, kTensors> tensors;
};

class Reordering {
 public:
  Reordering(const Comm& comm, Transport& transport, const Stream& stream, const Plan& plan,
             const PlacementBefore& before, const ModelShape& shape, const Generator& generator,
             RankBuffers& buffers)
      : comm_(comm),
        transport_(transport),
        stream_(stream),
        plan_(plan),
        before_(before),
        shape_(shape),
        generator_(generator),
        buffers_(buffers),
        rank_(comm.rank()),
        bytes_{static_cast<std::size_t>(shape.expert_bytes()),
               static_cast<std::size_t>(shape.expert_elements()) * sizeof(float),
               static_cast<std::size_t>(shape.expert_elements()) * sizeof(float)} {
    for (std::size_t t = 0; t < kTensors; ++t) {
      old_.emplace_back(stream.device(), static_cast<std::size_t>(before.slots) * bytes_[t]);
      if (t > 0)
        moments_.emplace_back(stream.device(),
                              static_cast<std::size_t>(plan.header.slots_per_rank) * bytes_[t]);
    }
  }

  /// `place`: the layer's position in the selection.
  void run(LayerId l, std::size_t place, bool verify, ReorderResult& result) {
    const State old{slots_of(before_.slot_expert, l, before_.slots),
                    {old_[0].data(), old_[1].data(), old_[2].data()}};
    const State now{slots_of(plan_.slot_expert, l, plan_.header.slots_per_rank),
                    {buffers_.home_weights.data() +
                         place * static_cast<std::size_t>(buffers_.sizes.home_slots) * bytes_[0],
                     moments_[0].data(), moments_[1].data()}};
    load(l, old);
    comm_.barrier();
    const Event begin(stream_.device()), end(stream_.device());
    begin.record(stream_.handle());
    std::int64_t sent = 0, received = 0;
    move(l, old, now, sent, received);
    end.record(stream_.handle());
    transport_.finish(stream_.handle());
    stream_.synchronize();
    result.seconds += comm_.max(elapsed(stream_.device(), begin.handle(), end.handle()));
    result.bytes += comm_.sum(sent);
    result.busiest_bytes += comm_.max(std::max(sent, received));
    if (verify) result.wrong += comm_.sum(count_wrong(l, now));
  }

 private:
  std::span<const ExpertId> slots_of(std::span<const ExpertId> table, LayerId l, int slots) const {
    const Topology& t = plan_.header.topology;
    const auto p = t.ep_rank_of(rank_);
    return table.subspan(
        (l.index() * static_cast<std::size_t>(t.ep_size) + p.index()) * static_cast<std::size_t>(slots),
        static_cast<std::size_t>(slots));
  }

  std::vector<std::byte> tensor(std::size_t t, LayerId l, ExpertId e) const {
    std::vector<float> values(static_cast<std::size_t>(shape_.expert_elements()));
    if (t == 0) {
      generator_.expert(l, e, values);
      return to_type(values, shape_.type);
    }
    generator_.moment(static_cast<int>(t) - 1, l, e, values);
    return to_type(values, kernels::Type::float32);
  }

  void load(LayerId l, const State& state) const {
    for (std::size_t slot = 0; slot < state.experts.size(); ++slot)
      for (std::size_t t = 0; t < kTensors && state.experts[slot].valid(); ++t) {
        const auto bytes = tensor(t, l, state.experts[slot]);
        stream_.copy(state.tensors[t] + slot * bytes_[t], bytes.data(), bytes.size());
        stream_.synchronize();
      }
  }

  static std::size_t slot_in(const State& state, ExpertId e) {
    return static_cast<std::size_t>(std::find(state.experts.begin(), state.experts.end(), e) -
                                    state.experts.begin());
  }

  /// Experts in ascending order, so that both sides list the same messages.
  void move(LayerId l, const State& old, const State& now, std::int64_t& sent, std::int64_t& received) {
    const Topology& topology = plan_.header.topology;
    const GroupId group = topology.group_of(rank_);
    Round round;
    for (ExpertId e : all<ExpertId>(plan_.header.num_experts)) {
      const RankId from = topology.rank_of(group, before_.placement.home(l, e));
      const RankId to = topology.rank_of(group, plan_.placement.home(l, e));
      for (std::size_t t = 0; t < kTensors; ++t) {
        const auto source = [&] { return old.tensors[t] + slot_in(old, e) * bytes_[t]; };
        const auto target = [&] { return now.tensors[t] + slot_in(now, e) * bytes_[t]; };
        if (from == rank_ && to == rank_) {
          stream_.copy(target(), source(), bytes_[t]);
        } else if (from == rank_) {
          round.sends.push_back({to, source(), bytes_[t]});
          sent += static_cast<std::int64_t>(bytes_[t]);
        } else if (to == rank_) {
          round.receives.push_back({from, target(), bytes_[t]});
          received += static_cast<std::int64_t>(bytes_[t]);
        }
      }
    }
    const auto ticket = transport_.begin(Channel::tokens, std::span(&round, 1), stream_.handle());
    transport_.wait(ticket, stream_.handle());
  }

  std::int64_t count_wrong(LayerId l, const State& state) const {
    std::int64_t wrong = 0;
    for (std::size_t slot = 0; slot < state.experts.size(); ++slot)
      for (std::size_t t = 0; t < kTensors && state.experts[slot].valid(); ++t) {
        const auto want = tensor(t, l, state.experts[slot]);
        const auto got = download<std::byte>(stream_, state.tensors[t] + slot * bytes_[t], want.size());
        wrong += std::memcmp(got.data(), want.data(), want.size()) != 0;
      }
    return wrong;
  }

  const Comm& comm_;
  Transport& transport_;
  const Stream& stream_;
  const Plan& plan_;
  const PlacementBefore& before_;
  const ModelShape& shape_;
  const Generator& generator_;
  RankBuffers& buffers_;
  RankId rank_;
  std::array<std::size_t, kTensors> bytes_;
  std::vector<Buffer> old_, moments_;
};

}  // namespace

std::int64_t reorder_bytes(const ModelShape& shape, int slots_before, int slots) {
  const std::int64_t moments = 2 * shape.expert_elements() * static_cast<std::int64_t>(sizeof(float));
  return slots_before * (shape.expert_bytes() + moments) + slots * moments;
}

ReorderResult reorder_experts(const Comm& comm, Transport& transport, const Stream& stream, const Plan& plan,
                              const PlacementBefore& before, std::span<const LayerId> layers,
                              const ModelShape& shape, const Generator& generator, RankBuffers& buffers,
                              bool verify) {
  ReorderResult result;
  Reordering reordering(comm, transport, stream, plan, before, shape, generator, buffers);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (ExpertId e : all<ExpertId>(plan.header.num_experts))
      result.moves += before.placement.home(layers[i], e) != plan.placement.home(layers[i], e);
    reordering.run(layers[i], i, verify, result);
  }
  if (!verify) result.wrong = -1;
  return result;
}

}  // namespace relibra::exec
