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
  dispatched,  ///< this rank has the rows it computes
  weights,     ///< and the weights of the copies it holds
  hidden,      ///< forward: all computed; backward: up to the weight gradients
  settled,     ///< gradients returned by the visit before are added
  computed,    ///< experts are done
  released,    ///< all ranks of the group are done: the slowest has come
  combined,    ///< results are back and added
};
inline constexpr std::size_t kMarks = 9;

struct Interval {
  double begin = 0, end = 0;  ///< seconds since the step began on this rank; both 0: there was none
  double seconds() const { return end - begin; }
};

struct VisitTimes {
  Visit visit;
  double at[kMarks] = {};  ///< seconds since the step began
  Interval push;           ///< of this visit's copies, beside the visit before
  Interval gradients;      ///< of its copies on their way home, beside the visit after

  double between(Mark from, Mark to) const {
    return at[static_cast<std::size_t>(to)] - at[static_cast<std::size_t>(from)];
  }
  double attention() const { return between(Mark::begin, Mark::attention); }
  double dispatch() const { return between(Mark::attention, Mark::dispatched); }
  double push_wait() const {
    return between(Mark::dispatched, Mark::weights);
  }  ///< what overlap did not hide
  double gradient_wait() const { return between(Mark::hidden, Mark::settled); }
  double compute() const {
    return between(Mark::weights, Mark::hidden) + between(Mark::settled, Mark::computed);
  }
  double wait() const { return between(Mark::computed, Mark::released); }  ///< for the slowest
  double combine() const { return between(Mark::released, Mark::combined); }
};

struct StepTimes {
  std::vector<VisitTimes> visits;
  double home_sum = 0;  ///< seconds: weight gradients over the D homes
  double total = 0;     ///< seconds from the common start to this rank's end
};

}  // namespace relibra::exec
