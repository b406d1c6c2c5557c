#pragma once
// Plan files (docs/formats.md, "relibra.plan").
#include <memory>
#include <span>
#include <string>

#include "lib/comm/comm.h"
#include "lib/model/plan.h"

namespace relibra::io {

/// Collective. `mine` holds this rank's contiguous cells; in rank order they cover all cells once. Transfers
/// are written where any rank has some. Written to a temporary name beside `path`, flushed, renamed; removed
/// on failure. Same bytes for any number of ranks. Throws Fault::environment, agreed.
void write_plan(const Comm& comm, const Plan& plan, const PlanCells& mine, const std::string& path);

/// Whether the entries of the lists (experts, ranks, slots, tokens of /replicas and /split) are held against
/// their ranges when they are read. A checker wants them as written; everyone else indexes by them.
enum class ListEntries { checked, as_written };

/// A plan opened for reading. Attributes, shapes, types, offsets and the ranges of homes, slots,
/// micro-batches and source ranks are validated; rules that need the dump are not (job/check.h). Holds no
/// open file.
class PlanFile {
 public:
  /// Collective. One rank reads and sends the rest what it read. Throws Fault::input, agreed, naming file and
  /// dataset.
  PlanFile(const Comm& comm, const std::string& path, ListEntries entries = ListEntries::checked);
  ~PlanFile();
  PlanFile(PlanFile&&) noexcept;
  PlanFile& operator=(PlanFile&&) noexcept;

  const Plan& plan() const;
  /// /placement/moves as written: sorted or not, and whatever the two placements say.
  std::span<const Move> moves() const;
  bool has_transfers() const;
  const std::string& path() const;

  /// Collective (each rank its own range, may be empty): the lists and tables of the cells. Asking for
  /// transfers that the plan lacks throws Fault::input. Throws Fault::input, agreed.
  PlanCells read_cells(Range cells, bool with_transfers) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace relibra::io
