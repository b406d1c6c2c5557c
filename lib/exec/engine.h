#pragma once
// One rank's step: all selected layers of a micro-batch forward, then backward in reverse, micro-batch after
// micro-batch, as the schedule says. The engine holds no policy: it runs the lists.
#include <memory>
#include <vector>

#include "lib/exec/expert_compute.h"
#include "lib/exec/timeline.h"
#include "lib/exec/token_flow.h"
#include "lib/exec/weight_flow.h"

namespace relibra::exec {

/// Where a step's inputs come from and who looks at its results. Called between visits, outside their times.
class StepHooks {
 public:
  virtual ~StepHooks() = default;
  /// Writes the rows of this rank's tokens into buffers.stream: x before the first layer, and the gradient of
  /// the last layer's output before backward. `micro_batch` is a position in the selection.
  virtual void load_input(std::int32_t micro_batch) = 0;
  virtual void load_gradient(std::int32_t micro_batch) = 0;
  /// layer_out holds what the layer added (forward: outputs; backward: input gradients), gate_out[layer] the
  /// gradients of gate weights (backward).
  virtual void after_visit(const Visit&) {}
};

class Engine {
 public:
  /// Uploads the schedule's tables and prepares its GEMMs. Local. `buffers` are at least as large as the
  /// schedule asks; home weights are loaded by the caller.
  Engine(const Device& device, Transport& transport, const RankSchedule& schedule, const ModelShape& shape,
         RankBuffers& buffers);
  ~Engine();

  /// Collective over the plan's ranks: every rank runs its schedule of the same plan. Blocks until this rank
  /// is done; home_gradients then hold the step's weight gradients.
  void step(StepHooks& hooks);

  /// Of the last step; before the next one.
  StepTimes times() const;

  const Stream& stream() const { return stream_; }

 private:
  struct Attention;
  struct VisitRecord;

  void run_visit(std::size_t index, StepHooks& hooks);
  void begin_push(std::size_t index);
  void mark(std::size_t index, Mark mark) const;
  const CellTables& tables(const Visit& visit) const;

  const Device& device_;
  Transport& transport_;
  const RankSchedule& schedule_;
  const ModelShape& shape_;
  RankBuffers& buffers_;
  Stream stream_;
  TokenFlow tokens_;
  WeightFlow weights_;
  std::vector<CellTables> tables_;        // by selected cell
  std::vector<ExpertCompute> compute_;    // by visit
  std::vector<VisitRecord> records_;      // by visit
  std::unique_ptr<Attention> attention_;  // null: off
  Event step_begin_, visits_done_, step_end_;
};

}  // namespace relibra::exec
