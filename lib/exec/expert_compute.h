#pragma once
// What a rank computes in one visit of a cell: rows in, rows out. No communication, so that it also serves
// runs that only compute (emulate.h).
#include <optional>
#include <vector>

#include "lib/exec/buffers.h"
#include "lib/exec/tables.h"

namespace relibra::exec {

/// Forward reads kept_rows[layer] and writes `returned`; it keeps kept_gate_up[layer]. Backward reads
/// `returned` (gradients of what forward wrote) and kept_*; it writes `returned` (gradients of the rows),
/// gate_sent, and the weight gradients of homes (added) and copies (overwritten).
///
/// With x a received row, d its incoming gradient, w the gate weight of one of its assignments:
///   forward:  [g u] = x W13^T, h = silu(g) u, y = h W2^T, out = sum of w y
///   backward: dh = d W2, dw = <dh, h>, dW2 += d^T (w h), [dg du] = w dh through SwiGLU,
///             dW13 += [dg du]^T x, dx = [dg du] W13, out = sum of dx
class ExpertCompute {
 public:
  /// Prepares the GEMMs of a visit. Local.
  ExpertCompute(const Device& device, const RankSchedule& schedule, const Visit& visit,
                const ModelShape& shape, RankBuffers& buffers);

  void forward(const Stream& stream, const CellTables& tables) const;
  /// Up to the products that write weight gradients, and from there.
  void backward_to_hidden(const Stream& stream, const CellTables& tables) const;
  void backward_weights(const Stream& stream, const CellTables& tables) const;

 private:
  struct Layout;
  void gather(const Stream& stream, const CellTables& tables, const Buffer& from) const;
  void combine(const Stream& stream, const CellTables& tables, const float* weight) const;
  void clear_unused_copies(const Stream& stream) const;

  const ModelShape& shape_;
  RankBuffers& buffers_;
  std::size_t layer_;
  std::int64_t rows_, assignments_;
  std::vector<float*> unused_copies_;  ///< gradients of copies that get no row here
  std::optional<Gemm> up_, down_;      // forward
  std::optional<Gemm> down_data_, down_weight_, up_weight_, up_data_;  // backward
};

}  // namespace relibra::exec
