#include "lib/exec/weight_flow.h"

namespace relibra::exec {

WeightFlow::WeightFlow(Transport& transport, const Stream& stream, const RankSchedule& schedule,
                       const ModelShape& shape, RankBuffers& buffers)
    : transport_(transport), stream_(stream), schedule_(schedule), shape_(shape), buffers_(buffers) {}

std::byte* WeightFlow::weights_of(std::int32_t slot, std::int32_t layer, std::int32_t bank) const {
  if (slot < schedule_.home_slots)
    return buffers_.home_weights.data() + (layer * buffers_.sizes.home_slots + slot) * shape_.expert_bytes();
  return buffers_.copy_weights.data() +
         (bank * buffers_.sizes.copy_slots + slot - schedule_.home_slots) * shape_.expert_bytes();
}

float* WeightFlow::home_gradient(std::int32_t layer, std::int64_t element) const {
  return buffers_.home_gradients.as<float>() + layer * buffers_.sizes.home_slots * shape_.expert_elements() +
         element;
}

void WeightFlow::accumulate(float* out, const float* in, std::int64_t count) const {
  stream_.device().check(stream_.device().backend().accumulate(stream_.handle(), out, in, count),
                         "accumulate");
}

Transport::Ticket WeightFlow::push(const Visit& visit) {
  const RankPushes& pushes = schedule_.cell(visit).pushes;
  const auto bytes = static_cast<std::size_t>(shape_.expert_bytes());
  Round rounds[kPushRounds];
  for (int r = 0; r < kPushRounds; ++r) {
    for (const PushSend& send : pushes.sends[r])
      rounds[r].sends.push_back({send.to, weights_of(send.slot, visit.layer, visit.bank), bytes});
    for (const PushReceive& receive : pushes.receives[r])
      rounds[r].receives.push_back({receive.from, weights_of(receive.slot, visit.layer, visit.bank), bytes});
  }
  return transport_.begin(Channel::weights, rounds, stream_.handle());
}

Transport::Ticket WeightFlow::return_gradients(const Visit& visit) {
  const CellSchedule& cell = schedule_.cell(visit);
  const auto bytes = static_cast<std::size_t>(shape_.expert_elements()) * sizeof(float);
  Round round;
  for (const auto& send : cell.pushes.return_sends)
    round.sends.push_back(
        {send.peer, buffers_.copy_gradients.data() + (send.slot - schedule_.home_slots) * bytes, bytes});
  std::size_t place = 0;
  for (const auto& receive : cell.pushes.return_receives)
    round.receives.push_back({receive.peer, buffers_.returned_gradients.data() + place++ * bytes, bytes});
  const auto ticket = transport_.begin(Channel::weights, std::span(&round, 1), stream_.handle());
  returning_ = Returning{ticket, &cell, visit.layer};
  return ticket;
}

void WeightFlow::settle_returns() {
  if (!returning_) return;
  transport_.wait(returning_->ticket, stream_.handle());
  const std::int64_t elements = shape_.expert_elements();
  const float* received = buffers_.returned_gradients.as<float>();
  for (const auto& receive : returning_->cell->pushes.return_receives) {
    accumulate(home_gradient(returning_->layer, receive.slot * elements), received, elements);
    received += elements;
  }
  returning_.reset();
}

void WeightFlow::sum_homes() {
  if (!schedule_.sum_homes) return;
  const auto homes = channel_ranks(schedule_.topology, schedule_.domain, Channel::homes, schedule_.rank);
  const int count = static_cast<int>(homes.size()), mine = index_in(homes, schedule_.rank);
  const std::int64_t layer_elements = schedule_.home_slots * shape_.expert_elements();
  const auto share = [&](int home) { return share_of(layer_elements, home, count); };
  const auto bytes = [](Range range) { return static_cast<std::size_t>(range.size()) * sizeof(float); };
  const auto place = [&](int peer) {  // of what `peer` sends, among the D-1
    return buffers_.home_shares.as<float>() + (peer - (peer > mine)) * share(mine).size();
  };
  for (std::int32_t l = 0; l < static_cast<std::int32_t>(schedule_.selection.layers.size()); ++l) {
    Round scatter, gather;
    for (int peer = 0; peer < count; ++peer) {
      if (peer == mine) continue;
      const RankId rank = homes[static_cast<std::size_t>(peer)];
      scatter.sends.push_back({rank, home_gradient(l, share(peer).first), bytes(share(peer))});
      scatter.receives.push_back({rank, place(peer), bytes(share(mine))});
      gather.sends.push_back({rank, home_gradient(l, share(mine).first), bytes(share(mine))});
      gather.receives.push_back({rank, home_gradient(l, share(peer).first), bytes(share(peer))});
    }
    transport_.wait(transport_.begin(Channel::homes, std::span(&scatter, 1), stream_.handle()),
                    stream_.handle());
    for (int peer = 0; peer < count; ++peer)
      if (peer != mine) accumulate(home_gradient(l, share(mine).first), place(peer), share(mine).size());
    transport_.wait(transport_.begin(Channel::homes, std::span(&gather, 1), stream_.handle()),
                    stream_.handle());
  }
}

}  // namespace relibra::exec
