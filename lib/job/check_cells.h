#pragma once
// Rules of docs/formats.md about the cells of a plan: copies, splits and tables against the recount.
#include "lib/job/check_broken.h"
#include "lib/job/metrics.h"

namespace relibra {

/// Checks what the recount shows it, and samples those micro-batches whose lists are in range.
class CellChecker final : public RecountVisitor {
 public:
  CellChecker(const PlanView& view, BrokenRules& broken);

  void bin(const PlanCells& cells, const BinRecount& bin) override;
  void micro_batch(const PlanCells& cells, MicroBatchRecount& recount) override;

  const PlanSamples& samples() const { return samples_; }

 private:
  struct Cell;
  void check_split_of_bin(const Cell& cell, const BinRecount& bin);
  void check_transfer_row(const Cell& cell, RankId source, std::span<const std::int32_t> due);
  bool check_copies(const Cell& cell);
  void check_slots_in_use(const Cell& cell);
  void check_split(const Cell& cell);
  void check_sources_without_tokens(const Cell& cell);
  void check_table(const Cell& cell, const char* name, const std::vector<std::int64_t>& table,
                   std::span<const std::int64_t> due);

  const Plan& plan_;
  const bool has_transfers_;
  const Topology topology_;
  BrokenRules& broken_;
  std::vector<bool> has_sequences_;  ///< (M, W) whether a source has any in a micro-batch
  PlanSamples samples_;
};

}  // namespace relibra
