#pragma once
// What a rank's step looked like in time, and the durations that are reported. Definitions:
// docs/execution.md.
#include <vector>

#include "lib/exec/schedule.h"

namespace relibra::exec {

/// Points of a visit on the compute stream, in order.
enum class Mark {
  begin,       ///< the visit's turn
  attention,   ///< the stand-in is done
  gathered,    ///< rows are in send order
  dispatched,  ///< this rank has the rows it computes
  weights,     ///< and the weights of the copies it holds
  hidden,      ///< forward: all computed; backward: up to the weight gradients
  settled,     ///< gradients returned by the visit before are added
  computed,    ///< experts are done
  released,    ///< all ranks of the group are done: the slowest has come
  returned,    ///< this rank has the results of its tokens
  combined,    ///< and added them up
};
inline constexpr std::size_t kMarks = 11;

struct Interval {
  double begin = 0, end = 0;  ///< seconds since the step began on this rank; both 0: there was none
  double seconds() const { return end - begin; }
};

/// Durations of a visit that are reported; definitions in docs/execution.md.
enum class Phase {
  attention,
  dispatch,           ///< gathering and sending rows, until all have come
  dispatch_transfer,  ///< of it, the exchange
  push_wait,          ///< for weights that came too late: what overlap did not hide
  compute,            ///< gathering by expert, GEMMs, SwiGLU, sums by row
  gradient_wait,      ///< for gradients of copies, and adding them
  wait,               ///< for the slowest rank of the group
  combine,            ///< results back and added up
  combine_transfer,   ///< of it, the exchange
  push,               ///< weights of copies on their way, beside the visit before
  gradients,          ///< gradients of copies on their way, beside the visit after
};
inline constexpr std::size_t kPhases = 11;
const char* name_of(Phase phase);

struct VisitTimes {
  Visit visit;
  double at[kMarks] = {};  ///< seconds since the step began
  Interval push, gradients;

  double between(Mark from, Mark to) const {
    return at[static_cast<std::size_t>(to)] - at[static_cast<std::size_t>(from)];
  }
  double seconds(Phase phase) const;
};

struct StepTimes {
  std::vector<VisitTimes> visits;
  double home_sum = 0;  ///< seconds: weight gradients over the D homes
  double total = 0;     ///< seconds from the common start to this rank's end
};

}  // namespace relibra::exec
