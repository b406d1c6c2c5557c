#include "lib/job/check.h"

#include "lib/comm/agree.h"
#include "lib/job/check_cells.h"
#include "lib/job/check_whole.h"

namespace relibra {

CheckReport check_plan(const Comm& comm, RoutingSource& source, const PlanView& view,
                       const CheckOptions& options) {
  BrokenRules broken, elsewhere;  // every rank checks the whole plan, the root alone reports it
  bool countable = false;
  agreed(comm, [&] {
    BrokenRules& whole = comm.root() ? broken : elsewhere;
    countable = check_header(source.dump(), view, options, whole) &&
                check_sequences(source.dump(), view.plan, whole) &&
                check_placement(view, options.previous, whole);
  });
  CheckReport report;
  if (countable) {
    CellChecker checker(view, broken);
    RecountOptions recounting = options.recount;
    recounting.transfers = view.has_transfers;
    report.totals = recount(comm, source, view, checker, recounting);
    report.samples = gather_samples(comm, checker.samples());
    if (comm.root()) {
      broken.require(report.totals.invalid == 0, BrokenRules::kWholePlan,
                     "the dump holds " + std::to_string(report.totals.invalid) + " expert ids >= E");
      broken.require(
          report.totals.digest == view.plan.header.dump_digest, BrokenRules::kWholePlan,
          "dump_digest " + view.plan.header.dump_digest + " is not the dump's " + report.totals.digest);
    }
  }
  std::tie(report.broken_count, report.broken) = broken.gather(comm);
  return report;
}

nlohmann::ordered_json check_json(const Plan& plan, const CheckReport& report) {
  return {{"valid", report.valid()},          {"broken_count", report.broken_count},
          {"broken", report.broken},          {"plan", header_json(plan.header)},
          {"sequences", plan.sequences()},    {"assignments", report.totals.assignments},
          {"missing", report.totals.missing}, {"summary", summary_json(plan, report.samples, {})}};
}

}  // namespace relibra
