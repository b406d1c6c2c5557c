#include "lib/exec/timeline.h"

namespace relibra::exec {

const char* name_of(Phase phase) {
  constexpr const char* names[] = {
      "attention", "dispatch", "dispatch_transfer", "push_wait", "compute",  "gradient_wait",
      "wait",      "combine",  "combine_transfer",  "push",      "gradients"};
  static_assert(std::size(names) == kPhases);
  return names[static_cast<std::size_t>(phase)];
}

double VisitTimes::seconds(Phase phase) const {
  switch (phase) {
    case Phase::attention:
      return between(Mark::begin, Mark::attention);
    case Phase::dispatch:
      return between(Mark::attention, Mark::dispatched);
    case Phase::dispatch_transfer:
      return between(Mark::gathered, Mark::dispatched);
    case Phase::push_wait:
      return between(Mark::dispatched, Mark::weights);
    case Phase::compute:
      return between(Mark::weights, Mark::hidden) + between(Mark::settled, Mark::computed);
    case Phase::gradient_wait:
      return between(Mark::hidden, Mark::settled);
    case Phase::wait:
      return between(Mark::computed, Mark::released);
    case Phase::combine:
      return between(Mark::released, Mark::combined);
    case Phase::combine_transfer:
      return between(Mark::released, Mark::returned);
    case Phase::push:
      return push.seconds();
    case Phase::gradients:
      break;
  }
  return gradients.seconds();
}

}  // namespace relibra::exec
