#include "lib/exec/token_flow.h"

namespace relibra::exec {

TokenFlow::TokenFlow(Transport& transport, const Stream& stream, const RankSchedule& schedule,
                     const ModelShape& shape, RankBuffers& buffers)
    : transport_(transport), stream_(stream), schedule_(schedule), shape_(shape), buffers_(buffers) {}

void TokenFlow::exchange(const Round& round) {
  const auto ticket = transport_.begin(Channel::tokens, std::span(&round, 1), stream_.handle());
  transport_.wait(ticket, stream_.handle());
}

Round TokenFlow::outward(const CellSchedule& cell, const Buffer& from, const Buffer& to) const {
  const auto row = static_cast<std::size_t>(shape_.hidden * shape_.element_bytes());
  Round round;
  for (EpRankId p : all<EpRankId>(schedule_.topology.ep_size)) {
    const RankId peer = schedule_.topology.rank_of(schedule_.group(), p);
    const auto sent = static_cast<std::size_t>(cell.send.offset[p.index()]);
    const auto sent_end = static_cast<std::size_t>(cell.send.offset[p.index() + 1]);
    const auto received = static_cast<std::size_t>(cell.receive.offset[p.index()]);
    const auto received_end = static_cast<std::size_t>(cell.receive.offset[p.index() + 1]);
    round.sends.push_back({peer, from.data() + sent * row, (sent_end - sent) * row});
    round.receives.push_back({peer, to.data() + received * row, (received_end - received) * row});
  }
  return round;
}

/// The way back: what was received is sent, what was sent is received.
Round TokenFlow::homeward(const CellSchedule& cell, const Buffer& from, const Buffer& to) const {
  const Round out = outward(cell, to, from);
  Round round;
  for (const Incoming& in : out.receives) round.sends.push_back({in.from, in.data, in.bytes});
  for (const Outgoing& sent : out.sends)
    round.receives.push_back({sent.to, const_cast<void*>(sent.data), sent.bytes});
  return round;
}

void TokenFlow::add_gate_gradients(const CellSchedule& cell, Round& round) const {
  for (EpRankId p : all<EpRankId>(schedule_.topology.ep_size)) {
    const RankId peer = schedule_.topology.rank_of(schedule_.group(), p);
    const auto first = static_cast<std::size_t>(cell.receive.route_offset[p.index()]);
    const auto last = static_cast<std::size_t>(cell.receive.route_offset[p.index() + 1]);
    round.sends.push_back({peer, buffers_.gate_sent.as<float>() + first, (last - first) * sizeof(float)});
    const auto row = static_cast<std::size_t>(cell.send.offset[p.index()]);
    round.receives.push_back({peer, buffers_.gate_back.as<float>() + cell.send.route_offset[row],
                              static_cast<std::size_t>(cell.send.routes_to(p)) * sizeof(float)});
  }
}

void TokenFlow::gather(const Visit& visit, const CellTables& tables) {
  const kernels::GatherRows args{shape_.type,
                                 schedule_.cell(visit).send.rows(),
                                 shape_.hidden,
                                 tables.token,
                                 buffers_.stream.data(),
                                 buffers_.sent.data()};
  stream_.device().check(stream_.device().backend().gather_rows(stream_.handle(), &args), "gather_rows");
}

void TokenFlow::dispatch(const Visit& visit) {
  const auto layer = static_cast<std::size_t>(visit.layer);
  exchange(outward(schedule_.cell(visit), buffers_.sent,
                   visit.backward ? buffers_.returned : buffers_.kept_rows[layer]));
}

void TokenFlow::bring_back(const Visit& visit) {
  const CellSchedule& cell = schedule_.cell(visit);
  Round round = homeward(cell, buffers_.returned, buffers_.sent);
  if (visit.backward) add_gate_gradients(cell, round);
  exchange(round);
}

void TokenFlow::combine(const Visit& visit, const CellTables& tables) {
  sum_by_token(visit, tables);
  if (visit.backward) place_gate_gradients(visit, tables);
}

void TokenFlow::place_gate_gradients(const Visit& visit, const CellTables& tables) {
  const SendList& send = schedule_.cell(visit).send;
  const auto& backend = stream_.device().backend();
  stream_.device().check(backend.fill(stream_.handle(), buffers_.gate_back.as<float>() + send.routes(),
                                      kernels::Type::float32, 0, 1),
                         "fill");
  const kernels::GatherRows gate{kernels::Type::float32,
                                 std::int64_t{send.tokens()} * schedule_.top_k,
                                 1,
                                 tables.gate_index,
                                 buffers_.gate_back.data(),
                                 buffers_.gate_out[static_cast<std::size_t>(visit.layer)].data()};
  stream_.device().check(backend.gather_rows(stream_.handle(), &gate), "gather_rows");
}

void TokenFlow::sum_by_token(const Visit& visit, const CellTables& tables) {
  const auto& backend = stream_.device().backend();
  const std::int64_t tokens = schedule_.cell(visit).send.tokens();
  const kernels::CombineRows sum{
      shape_.type, tokens,  shape_.hidden,        tables.return_offset,     tables.return_row,
      nullptr,     nullptr, buffers_.sent.data(), buffers_.layer_out.data()};
  stream_.device().check(backend.combine_rows(stream_.handle(), &sum), "combine_rows");
  const auto* identity = buffers_.identity.as<std::int32_t>();
  const kernels::CombineRows add{shape_.type,
                                 tokens,
                                 shape_.hidden,
                                 identity,
                                 identity,
                                 nullptr,
                                 buffers_.stream.data(),
                                 buffers_.layer_out.data(),
                                 buffers_.stream.data()};
  stream_.device().check(backend.combine_rows(stream_.handle(), &add), "combine_rows");
}

}  // namespace relibra::exec
