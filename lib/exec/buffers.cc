#include "lib/exec/buffers.h"

#include <algorithm>
#include <numeric>

namespace relibra::exec {
namespace {

std::int64_t sum_of(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

/// Largest share of a layer's home gradients that one home adds up, times the peers that send theirs.
std::int64_t home_share_elements(const StepSizes& sizes, const ModelShape& shape) {
  if (sizes.groups == 1) return 0;
  const std::int64_t layer = sizes.home_slots * shape.expert_elements();
  return (sizes.groups - 1) * share_of(layer, 0, static_cast<int>(sizes.groups)).size();
}

/// Index tables of a cell, in int32 (weights are as wide).
std::int64_t table_ints(const CellSchedule& cell) {
  const SendList& s = cell.send;
  const ReceiveList& r = cell.receive;
  return static_cast<std::int64_t>(s.token.size() + s.return_offset.size() + s.return_row.size() +
                                   s.gate_index.size() + r.row.size() + r.weight.size() +
                                   r.sum_offset.size() + r.sum.size());
}

}  // namespace

void StepSizes::include(const RankSchedule& schedule) {
  const auto raise = [](std::int64_t& largest, std::int64_t value) { largest = std::max(largest, value); };
  raise(layers, static_cast<std::int64_t>(schedule.selection.layers.size()));
  raise(home_slots, schedule.home_slots);
  raise(copy_slots, schedule.copy_slots);
  groups = schedule.topology.ep_groups;
  top_k = schedule.top_k;
  kept_rows.resize(static_cast<std::size_t>(layers));
  kept_assignments.resize(static_cast<std::size_t>(layers));
  for (const std::int32_t count : schedule.tokens) raise(tokens, count);
  for (std::size_t c = 0; c < schedule.cells.size(); ++c) {
    const CellSchedule& cell = schedule.cells[c];
    const std::size_t l = c % schedule.selection.layers.size();
    raise(sent_rows, cell.send.rows());
    raise(sent_routes, cell.send.routes());
    raise(received_rows, cell.receive.rows());
    raise(assignments, cell.receive.assignments());
    raise(returned_gradients, static_cast<std::int64_t>(cell.pushes.return_receives.size()));
    raise(kept_rows[l], cell.receive.rows());
    raise(kept_assignments[l], cell.receive.assignments());
    table_ints += exec::table_ints(cell);
  }
}

std::vector<MemoryItem> memory_needed(const StepSizes& s, const ModelShape& shape) {
  const std::int64_t t = shape.element_bytes(), h = shape.hidden, i = shape.intermediate;
  const std::int64_t expert = shape.expert_elements(), row = h * t;
  return {
      {"weights of home experts", s.layers * s.home_slots * expert * t},
      {"their gradients", s.layers * s.home_slots * expert * 4 + home_share_elements(s, shape) * 4},
      {"weights of copies, two banks", 2 * s.copy_slots * expert * t},
      {"gradients of copies, sent and received", (s.copy_slots + s.returned_gradients) * expert * 4},
      {"tokens of this rank", (3 * s.tokens + s.sent_rows) * row + (s.layers * s.tokens * s.top_k) * 4},
      {"activations kept for backward", sum_of(s.kept_rows) * row + sum_of(s.kept_assignments) * 2 * i * t},
      {"working rows", s.received_rows * row + s.assignments * (row + i * t + 8) + s.sent_routes * 4},
      {"attention stand-in", shape.attention_columns * (h + s.tokens) * t},
      {"index tables", s.table_ints * 4 + s.tokens * 4},
  };
}

std::int64_t total_bytes(std::span<const MemoryItem> items) {
  std::int64_t sum = 0;
  for (const MemoryItem& item : items) sum += item.bytes;
  return sum;
}

RankBuffers::RankBuffers(const Device& device, const StepSizes& s, const ModelShape& shape) : sizes(s) {
  const std::int64_t t = shape.element_bytes(), h = shape.hidden, i = shape.intermediate;
  const std::int64_t expert = shape.expert_elements();
  const auto make = [&](std::int64_t elements, std::int64_t bytes_each) {
    return Buffer(device, static_cast<std::size_t>(elements * bytes_each));
  };
  home_weights = make(s.layers * s.home_slots * expert, t);
  home_gradients = make(s.layers * s.home_slots * expert, 4);
  copy_weights = make(2 * s.copy_slots * expert, t);
  copy_gradients = make(s.copy_slots * expert, 4);
  returned_gradients = make(s.returned_gradients * expert, 4);
  home_shares = make(home_share_elements(s, shape), 4);
  stream = make(s.tokens * h, t);
  inputs = make(s.tokens * h, t);
  layer_out = make(s.tokens * h, t);
  sent = make(s.sent_rows * h, t);
  returned = make(s.received_rows * h, t);
  for (std::size_t l = 0; l < static_cast<std::size_t>(s.layers); ++l) {
    kept_rows.push_back(make(s.kept_rows[l] * h, t));
    kept_gate_up.push_back(make(s.kept_assignments[l] * 2 * i, t));
    gate_out.push_back(make(s.tokens * s.top_k, 4));
  }
  wide = make(s.assignments * h, t);
  narrow = make(s.assignments * i, t);
  gate_gradient = make(s.assignments, 4);
  gate_sent = make(s.assignments, 4);
  gate_back = make(s.sent_routes + 1, 4);
  attention_weights = make(shape.attention_columns * h, t);
  attention_out = make(shape.attention_columns * s.tokens, t);
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(s.tokens) + 1);
  std::iota(numbers.begin(), numbers.end(), 0);
  identity = upload(Stream(device), std::span<const std::int32_t>(numbers));
}

void fill_plausibly(const Stream& stream, const ModelShape& shape, RankBuffers& buffers) {
  const auto fill_type = [&](const Buffer& buffer, kernels::Type type, double value) {
    const auto elements = static_cast<std::int64_t>(buffer.bytes() / kernels::size_of(type));
    stream.device().check(stream.device().backend().fill(stream.handle(), buffer.data(), type,
                                                         static_cast<float>(value), elements),
                          "fill");
  };
  const auto fill = [&](const Buffer& buffer, double value) { fill_type(buffer, shape.type, value); };
  const double weight = 1 / static_cast<double>(shape.hidden * buffers.sizes.layers);
  fill(buffers.home_weights, weight);
  fill(buffers.copy_weights, weight);
  fill(buffers.attention_weights, weight);
  fill(buffers.inputs, 0.5);
  fill_type(buffers.home_gradients, kernels::Type::float32, 0);
  stream.synchronize();
}

}  // namespace relibra::exec
