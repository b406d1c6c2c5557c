#pragma once
// Other programs' routing records as dumps.
#include <string>

#include "io/npy_file.h"
#include "lib/comm/comm.h"
#include "lib/count/count.h"

namespace relibra {

/// Collective. A .npy array becomes a dump at `path`; returns its counts, digest and findings. Its ids are
/// checked first, so that a record that no plan could use is refused. Throws Fault::input, agreed.
CountedRouting import_npy(const Comm& comm, const io::NpyRouting& what, const std::string& path);

}  // namespace relibra
