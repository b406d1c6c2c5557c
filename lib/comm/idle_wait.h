#pragma once
// Waiting for hours without using a core: ranks sleep between looks, and do not wake each other for nothing.
#include <functional>

#include "lib/comm/comm.h"

namespace relibra {

/// Collective. Returns on all ranks once `ready` is true on rank 0, which alone calls it, or `asked` is true
/// on any rank; the result is whether it was. A rank that is asked tells rank 0, which wakes the others; no
/// other message is sent. Between looks a rank sleeps, at first 0.1 ms, at most 10 ms, so that many looks at
/// `ready` must be cheap. Throws what `ready` throws, agreed.
///
/// Example: `asked` tells of a signal that a batch system may have sent to one rank only; all ranks get true.
bool wait_idle(const Comm& comm, const std::function<bool()>& ready, const std::function<bool()>& asked);

}  // namespace relibra
