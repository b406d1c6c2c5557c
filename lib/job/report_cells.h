#pragma once
// What the report shows of every cell of one plan, collected micro-batch by micro-batch.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/job/metrics.h"
#include "lib/job/recount.h"

namespace relibra {

/// Assignments of one replicated expert that one rank computes in one cell.
///
/// Example: the plan worked in docs/formats.md: expert 0 at home on rank 0 with a copy on rank 1, in slot 0,
/// split entries (source 0, rank 0, 4 tokens) and (source 2, rank 1, 1 token): parts (0, 0, home, 4) and
/// (0, 1, slot 0, 1).
struct ExpertPart {
  static constexpr std::int32_t kHome = -1;
  ExpertId expert;
  RankId rank;
  std::int32_t slot = kHome;  ///< of the copy
  std::int64_t tokens = 0;
  bool operator==(const ExpertPart&) const = default;
};

/// The parts of a cell by (expert, rank). A copy to which nothing is sent is one of no tokens.
std::vector<ExpertPart> expert_parts(std::span<const Copy> copies, std::span<const SplitEntry> split);

/// Dense tables of a plan, row-major; every process holds its micro-batches and zeros elsewhere until
/// `gather`.
struct ReportTables {
  explicit ReportTables(const PlanHeader& header);

  /// Collective: all micro-batches on every process.
  void gather(const Comm& comm);

  std::vector<std::int64_t> before, after;  ///< (M, L, W) assignments a rank computes: blocks, the plan
  std::vector<std::int64_t> expert_tokens;  ///< (L, E) assignments; zeros without a dump
  std::vector<std::int64_t> expert_copies;  ///< (L, E) copies, summed over micro-batches and groups
  std::vector<std::int64_t> copy_routes;    ///< (L, P, P) copies from a home to a rank of its group, likewise
  std::vector<std::int64_t> rows;           ///< (M) tokens; zeros without a dump
};

/// A micro-batch by expert, as text of JSON: {"parts": {"cell", "expert", "rank", "slot", "tokens"},
/// "counts"}, all packed. cell (L): parts of each layer; slot: 0 is the home, 1 the first slot; counts
/// (L, D, E): assignments from the sources of a group, null without a dump.
struct MicroBatchDetail {
  std::int64_t micro_batch = 0;
  std::string text;
};

class ReportCells final : public RecountVisitor {
 public:
  explicit ReportCells(const Plan& plan) : tables(plan.header), plan_(plan) {}

  void bin(const PlanCells&, const BinRecount&) override {}
  /// With a dump.
  void micro_batch(const PlanCells& cells, MicroBatchRecount& recount) override;
  /// Without one: what the plan's own tables and lists tell. `cells` are those of a micro-batch.
  void tables_of(const PlanCells& cells);

  ReportTables tables;
  PlanSamples samples;
  std::vector<MicroBatchDetail> detail;

 private:
  void add_loads(const PlanCells& cells, std::span<const std::int64_t> before,
                 std::span<const std::int64_t> after);
  void add_copies(const PlanCells& cells);
  void add_detail(const PlanCells& cells, const nlohmann::ordered_json& counts);

  const Plan& plan_;
};

}  // namespace relibra
