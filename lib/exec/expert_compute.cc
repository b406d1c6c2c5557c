#include "lib/exec/expert_compute.h"

#include <algorithm>

namespace relibra::exec {

using kernels::GemmGroup;
using kernels::GemmKind;

/// Where the parameters and gradients of a slot are for a visit.
struct ExpertCompute::Layout {
  const RankSchedule& schedule;
  const Visit& visit;
  const ModelShape& shape;
  const RankBuffers& buffers;

  bool home(std::int32_t slot) const { return slot < schedule.home_slots; }
  std::int64_t home_index(std::int32_t slot) const { return visit.layer * buffers.sizes.home_slots + slot; }
  std::byte* weights(std::int32_t slot) const {
    if (home(slot)) return buffers.home_weights.data() + home_index(slot) * shape.expert_bytes();
    const std::int64_t copy = visit.bank * buffers.sizes.copy_slots + slot - schedule.home_slots;
    return buffers.copy_weights.data() + copy * shape.expert_bytes();
  }
  float* gradient(std::int32_t slot) const {
    if (home(slot)) return buffers.home_gradients.as<float>() + home_index(slot) * shape.expert_elements();
    return buffers.copy_gradients.as<float>() + (slot - schedule.home_slots) * shape.expert_elements();
  }
};

ExpertCompute::ExpertCompute(const Device& device, const RankSchedule& schedule, const Visit& visit,
                             const ModelShape& shape, RankBuffers& buffers)
    : shape_(shape),
      buffers_(buffers),
      layer_(static_cast<std::size_t>(visit.layer)),
      rows_(schedule.cell(visit).receive.rows()),
      assignments_(schedule.cell(visit).receive.assignments()) {
  const Layout layout{schedule, visit, shape, buffers};
  const ReceiveList& receive = schedule.cell(visit).receive;
  const std::int64_t h = shape.hidden, i = shape.intermediate, t = shape.element_bytes();
  const auto row_of = [&](const Buffer& buffer, std::int32_t row, std::int64_t width) {
    return buffer.data() + row * width * t;
  };
  const auto prepare = [&](GemmKind kind, std::int64_t n, std::int64_t k, auto&& group_of) {
    std::vector<GemmGroup> groups;
    for (const SlotRows& slot : receive.groups) groups.push_back(group_of(slot));
    return Gemm(device, {kind, shape.type, n, k, groups.data(), static_cast<std::int32_t>(groups.size())});
  };
  const auto wide = [&](const SlotRows& s) { return row_of(buffers.wide, s.first, h); };
  const auto narrow = [&](const SlotRows& s) { return row_of(buffers.narrow, s.first, i); };
  const auto gate_up = [&](const SlotRows& s) {
    return row_of(buffers.kept_gate_up[layer_], s.first, 2 * i);
  };
  const auto w13 = [&](const SlotRows& s) { return layout.weights(s.slot); };
  const auto w2 = [&](const SlotRows& s) { return layout.weights(s.slot) + shape.down_offset() * t; };

  if (!visit.backward) {
    up_.emplace(prepare(GemmKind::forward, 2 * i, h, [&](auto& s) {
      return GemmGroup{s.rows, wide(s), w13(s), gate_up(s), false};
    }));
    down_.emplace(prepare(GemmKind::forward, h, i, [&](auto& s) {
      return GemmGroup{s.rows, narrow(s), w2(s), wide(s), false};
    }));
    return;
  }
  down_data_.emplace(prepare(GemmKind::data_gradient, h, i, [&](auto& s) {
    return GemmGroup{s.rows, wide(s), w2(s), narrow(s), false};
  }));
  down_weight_.emplace(prepare(GemmKind::weight_gradient, h, i, [&](auto& s) {
    return GemmGroup{s.rows, wide(s), narrow(s), layout.gradient(s.slot) + shape.down_offset(),
                     layout.home(s.slot)};
  }));
  up_weight_.emplace(prepare(GemmKind::weight_gradient, 2 * i, h, [&](auto& s) {
    return GemmGroup{s.rows, gate_up(s), wide(s), layout.gradient(s.slot), layout.home(s.slot)};
  }));
  up_data_.emplace(prepare(GemmKind::data_gradient, 2 * i, h, [&](auto& s) {
    return GemmGroup{s.rows, gate_up(s), w13(s), wide(s), false};
  }));
  for (const auto& back : schedule.cell(visit).pushes.return_sends)
    if (std::none_of(receive.groups.begin(), receive.groups.end(),
                     [&](const SlotRows& s) { return s.slot == back.slot; }))
      unused_copies_.push_back(layout.gradient(back.slot));
}

/// wide[a] = from[row[a]] for every assignment a.
void ExpertCompute::gather(const Stream& stream, const CellTables& tables, const Buffer& from) const {
  const kernels::GatherRows args{shape_.type, assignments_, shape_.hidden,
                                 tables.row,  from.data(),  buffers_.wide.data()};
  stream.device().check(stream.device().backend().gather_rows(stream.handle(), &args), "gather_rows");
}

/// returned[r] = sum of (weighted) wide[a] over the assignments a of received row r.
void ExpertCompute::combine(const Stream& stream, const CellTables& tables, const float* weight) const {
  const kernels::CombineRows args{
      shape_.type, rows_,   shape_.hidden,        tables.sum_offset,       tables.sum,
      weight,      nullptr, buffers_.wide.data(), buffers_.returned.data()};
  stream.device().check(stream.device().backend().combine_rows(stream.handle(), &args), "combine_rows");
}

void ExpertCompute::forward(const Stream& stream, const CellTables& tables) const {
  const auto& backend = stream.device().backend();
  gather(stream, tables, buffers_.kept_rows[layer_]);
  up_->run(stream.handle());
  const kernels::SwigluForward swiglu{shape_.type, assignments_, shape_.intermediate,
                                      buffers_.kept_gate_up[layer_].data(), buffers_.narrow.data()};
  stream.device().check(backend.swiglu_forward(stream.handle(), &swiglu), "swiglu_forward");
  down_->run(stream.handle());
  combine(stream, tables, tables.weight);
}

void ExpertCompute::backward_to_hidden(const Stream& stream, const CellTables& tables) const {
  const auto& backend = stream.device().backend();
  gather(stream, tables, buffers_.returned);
  down_data_->run(stream.handle());
  std::byte* gate_up = buffers_.kept_gate_up[layer_].data();
  const kernels::SwigluBackward swiglu{
      shape_.type, assignments_,           shape_.intermediate,
      gate_up,     buffers_.narrow.data(), tables.weight,
      gate_up,     buffers_.narrow.data(), buffers_.gate_gradient.as<float>()};
  stream.device().check(backend.swiglu_backward(stream.handle(), &swiglu), "swiglu_backward");
}

void ExpertCompute::backward_weights(const Stream& stream, const CellTables& tables) const {
  const auto& backend = stream.device().backend();
  clear_unused_copies(stream);
  down_weight_->run(stream.handle());
  gather(stream, tables, buffers_.kept_rows[layer_]);
  up_weight_->run(stream.handle());
  up_data_->run(stream.handle());
  combine(stream, tables, nullptr);
  const kernels::GatherRows gate{
      kernels::Type::float32,   assignments_, 1, tables.sum, buffers_.gate_gradient.data(),
      buffers_.gate_sent.data()};
  stream.device().check(backend.gather_rows(stream.handle(), &gate), "gather_rows");
}

void ExpertCompute::clear_unused_copies(const Stream& stream) const {
  for (float* gradient : unused_copies_)
    stream.device().check(stream.device().backend().fill(stream.handle(), gradient, kernels::Type::float32, 0,
                                                         shape_.expert_elements()),
                          "fill");
}

}  // namespace relibra::exec
