#pragma once
// Agreement of ranks on a failure, so that all leave together instead of some waiting in a collective for
// ever.
#include <optional>
#include <utility>

#include "lib/comm/comm.h"

namespace relibra {

/// Collective. If any rank passes an error, every rank throws the error of the lowest such rank, marked as
/// agreed. An error that is already agreed may be passed again.
void agree(const Comm& comm, const std::optional<Error>& mine);

/// Runs `work` (which must not be collective), then agrees on its failure. The pattern for every phase that
/// reads input:
///
///   agreed(comm, [&] { validate(header); });
template <class Work>
void agreed(const Comm& comm, Work&& work) {
  std::optional<Error> failure;
  try {
    std::forward<Work>(work)();
  } catch (...) {
    failure = to_error(std::current_exception());
  }
  agree(comm, failure);
}

}  // namespace relibra
