#pragma once
// Rows of tokens to the ranks that compute them, and what comes back.
#include "lib/exec/buffers.h"
#include "lib/exec/tables.h"
#include "lib/exec/transport.h"

namespace relibra::exec {

/// Forward: `stream` rows go out, `layer_out` is the sum of what comes back. Backward: the same with
/// gradients, and gradients of gate weights come back beside the rows, into gate_out.
class TokenFlow {
 public:
  TokenFlow(Transport& transport, const Stream& stream, const RankSchedule& schedule, const ModelShape& shape,
            RankBuffers& buffers);

  /// The stream's rows in send order.
  void gather(const Visit& visit, const CellTables& tables);
  /// To their destinations: into kept_rows (forward) or `returned` (backward) there. Ends when this rank has
  /// received its rows.
  void dispatch(const Visit& visit);
  /// `returned` (and gate_sent) back to the sources.
  void bring_back(const Visit& visit);
  /// layer_out = sum of rows by token, gate_out, and stream += layer_out.
  void combine(const Visit& visit, const CellTables& tables);

 private:
  /// Row counts to and from the ranks of the group become transfers of `width`-byte rows.
  Round outward(const CellSchedule& cell, const Buffer& from, const Buffer& to) const;
  Round homeward(const CellSchedule& cell, const Buffer& from, const Buffer& to) const;
  void add_gate_gradients(const CellSchedule& cell, Round& round) const;
  void sum_by_token(const Visit& visit, const CellTables& tables);
  void place_gate_gradients(const Visit& visit, const CellTables& tables);
  void exchange(const Round& round);

  Transport& transport_;
  const Stream& stream_;
  const RankSchedule& schedule_;
  const ModelShape& shape_;
  RankBuffers& buffers_;
};

}  // namespace relibra::exec
