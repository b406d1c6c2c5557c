#pragma once
// Synthetic dumps: a workload written to a file, and measured expert popularity from a table.
#include <cstdint>
#include <string>

#include "io/dump_file.h"
#include "lib/comm/comm.h"
#include "lib/workload/workload.h"

namespace relibra {

struct SynthResult {
  std::int64_t sequences = 0, rows = 0;
  std::int64_t id_bytes = 0;  ///< of all expert ids
};

/// Collective: ranks make and write their shares of the rows. Throws Fault::usage and Fault::environment,
/// agreed.
SynthResult synthesise(const Comm& comm, const WorkloadOptions& workload, const std::string& path,
                       const io::DumpWriteOptions& write);

/// Collective. Expert counts from a comma-separated table whose first line is
/// model,domain,layer,expert,count: for the model named, or the only one where `model` is empty, every domain
/// has the same layers and every layer all experts, each once. Throws Fault::input, agreed, naming file and
/// line.
MeasuredPopularity read_popularity(const Comm& comm, const std::string& path, const std::string& model);

}  // namespace relibra
