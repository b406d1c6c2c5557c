#include "lib/job/step_report.h"

#include <omp.h>

#include "io/plan_file.h"
#include "lib/base/units.h"
#include "lib/workload/workload.h"

namespace relibra {

std::vector<std::string> remarks_on(const RoutingFindings& findings) {
  std::vector<std::string> remarks;
  for (const std::string& suspicion : findings.suspicions) remarks.push_back("warning: " + suspicion);
  if (findings.missing > 0)
    remarks.push_back("note: " + format_count(findings.missing) + " routes are missing, beside " +
                      format_count(findings.assignments) + " recorded");
  return remarks;
}

PlanSamples measure_step(const Comm& comm, PlannedStep& step, bool recount, const Progress& progress) {
  if (recount) {
    const io::PlanFile file(comm, step.path);
    return measure_plan(comm, *step.source, view_of(file),
                        {.progress = [&](double done) { progress("measure", done); }});
  }
  PlanSamples mine;
  const PlanCells& cells = step.result.mine;
  sample_cells(step.result.plan, cells, cells.rank_tokens_static, cells.rank_tokens, mine);
  return gather_samples(comm, mine);
}

nlohmann::ordered_json step_json(const Comm& comm, const PlannedStep& step, const PlanSamples& samples,
                                 const std::string& model) {
  ExpertBytes bytes;
  if (!model.empty())
    bytes = ExpertBytes::swiglu(model_preset(model).hidden, model_preset(model).intermediate);
  return metrics_json(step.result.plan, samples, bytes,
                      {.ranks = comm.size(),
                       .threads = omp_get_max_threads(),
                       .bytes_read = step.bytes_read,
                       .phases = step.result.phases});
}

}  // namespace relibra
