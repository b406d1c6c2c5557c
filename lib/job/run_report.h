#pragma once
// An execution told: a table for people with its RESULT line, a JSON document, a trace. Definitions of the
// figures: docs/execution.md.
#include <nlohmann/json.hpp>
#include <ostream>

#include "lib/job/run.h"

namespace relibra {

/// What the measures of one variant come to.
struct VariantFigures {
  double step = 0;             ///< seconds of a step, the slowest rank's
  double slowest_compute = 0;  ///< seconds: sum over visits of the slowest rank of each group
  double mean_compute = 0;
  double wait = 0;          ///< seconds a rank waits for the slowest, mean over ranks
  double compute_skew = 1;  ///< slowest_compute / mean_compute
  double load_skew = 1;     ///< the same of assignments
  double push_exposed = 0;  ///< seconds, mean over ranks: waiting for weights and for gradients
  double push = 0;          ///< seconds under way, mean over ranks
  double gflops = 0;        ///< of the GEMMs of a rank while it computes, mean over ranks
};
VariantFigures figures_of(const RunResult& result, const RunVariant& variant);

/// Bytes a second of the exchanges of a variant; 0 where none took place.
struct Bandwidth {
  double algorithm = 0, bus = 0;
};
struct RunBandwidths {
  Bandwidth dispatch, combine, push, gradients, homes;
};
RunBandwidths bandwidths_of(const RunResult& result, const RunVariant& variant);

void print_run(std::ostream& out, const RunResult& result);
nlohmann::ordered_json run_json(const RunResult& result);

/// Chrome trace format: a process a variant, a track a rank and stream. Needs RunOptions::trace.
nlohmann::ordered_json run_trace(const RunResult& result);

/// Whether all that was verified is right.
bool run_passed(const RunResult& result);

}  // namespace relibra
