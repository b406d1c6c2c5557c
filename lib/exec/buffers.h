#pragma once
// Device memory of one rank for a step: sized once from the schedules, allocated once.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/exec/device.h"
#include "lib/exec/schedule.h"
#include "lib/exec/shape.h"

namespace relibra::exec {

/// The largest counts over the cells of one or more schedules of a rank.
struct StepSizes {
  std::int64_t layers = 0, home_slots = 0, copy_slots = 0, groups = 1;
  std::int64_t tokens = 0;              ///< of a micro-batch, as source
  std::int64_t sent_rows = 0;           ///< of a cell
  std::int64_t sent_routes = 0;         ///< of a cell
  std::int64_t received_rows = 0;       ///< of a cell
  std::int64_t assignments = 0;         ///< of a cell
  std::int64_t returned_gradients = 0;  ///< copies of one cell whose gradients come home here
  std::int64_t table_ints = 0;          ///< index tables of all cells and schedules together
  int top_k = 0;
  // By selected layer, the largest micro-batch: activations are kept from forward to backward.
  std::vector<std::int64_t> kept_rows, kept_assignments;

  void include(const RankSchedule& schedule);
};

/// What the memory is for; bytes of each, in the order of the fields of RankBuffers.
struct MemoryItem {
  std::string what;
  std::int64_t bytes = 0;
};
std::vector<MemoryItem> memory_needed(const StepSizes& sizes, const ModelShape& shape);
std::int64_t total_bytes(std::span<const MemoryItem> items);

/// Content is undefined but for `identity`: fill_plausibly() gives a timed step something to compute on.
/// Rows are of the shape's element type unless stated; float32 gradients.
struct RankBuffers {
  RankBuffers(const Device& device, const StepSizes& sizes, const ModelShape& shape);

  StepSizes sizes;
  Buffer home_weights;            ///< (layers, C, 3HI)
  Buffer home_gradients;          ///< (layers, C, 3HI) float32, added up over the step
  Buffer copy_weights;            ///< (2 banks, V, 3HI)
  Buffer copy_gradients;          ///< (V, 3HI) float32
  Buffer returned_gradients;      ///< (returned_gradients, 3HI) float32, of one cell
  Buffer home_shares;             ///< (D-1, share of a layer's C*3HI) float32: the sum over homes
  Buffer stream;                  ///< (tokens, H) x going forward, its gradient going backward
  Buffer inputs;                  ///< (tokens, H) what timed steps start from
  Buffer layer_out;               ///< (tokens, H) what the MoE layer adds to the stream
  Buffer sent;                    ///< (sent rows, H) rows out, and what comes back for them
  Buffer returned;                ///< (received rows, H) rows in (backward), and what is sent back for them
  std::vector<Buffer> kept_rows;  ///< by layer: (received rows, H) rows in (forward)
  std::vector<Buffer> kept_gate_up;  ///< by layer: (assignments, 2I), then their gradients
  Buffer wide;                       ///< (assignments, H)
  Buffer narrow;                     ///< (assignments, I)
  Buffer gate_gradient;              ///< (assignments) float32, in GEMM order
  Buffer gate_sent;                  ///< (assignments) float32, in the order of received rows
  Buffer gate_back;              ///< (sent routes + 1) float32; the last stands for routes not recorded: 0
  std::vector<Buffer> gate_out;  ///< by layer: (tokens, K) float32, gradients of gate weights
  Buffer identity;               ///< (tokens + 1) int32 0, 1, 2, ...: to add rows to rows
  Buffer attention_weights;      ///< (columns, H)
  Buffer attention_out;          ///< (tokens, columns)
};

/// Weights and inputs of values near those of a model: timed steps do not care which, but denormal numbers
/// and infinities would cost time.
void fill_plausibly(const Stream& stream, const ModelShape& shape, RankBuffers& buffers);

}  // namespace relibra::exec
