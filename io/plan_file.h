#pragma once
// Plan files (docs/formats.md, "relibra.plan").
#include <memory>
#include <span>
#include <string>

#include "lib/comm/comm.h"
#include "lib/model/plan.h"

namespace relibra::io {

/// Collective. `mine` holds this rank's contiguous cells; in rank order they cover all cells once. Written to
/// a temporary name beside `path`, flushed, renamed; removed on failure. Same bytes for any number of ranks.
void write_plan(const Comm& comm, const Plan& plan, const PlanCells& mine, const std::string& path);

/// A plan opened for reading. Shapes, types and CSR offsets are validated; rules that need the dump are not
/// (job/check.h).
class PlanFile {
 public:
  /// Collective. Throws Fault::input, agreed, naming file and dataset.
  PlanFile(const Comm& comm, const std::string& path);
  ~PlanFile();

  const Plan& plan() const;
  bool has_transfers() const;
  const std::string& path() const;
  std::span<const Move> moves() const;  ///< /placement/moves as written

  /// Collective (each rank its own range, may be empty): the lists and tables of the cells.
  PlanCells read_cells(Range cells, bool with_transfers) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace relibra::io
