#pragma once
// Routing dumps (docs/formats.md, "relibra.routing") in HDF5 files: opening a step in one file or several
// shards as a RoutingSource, and writing any RoutingSource as a dump.
#include <memory>
#include <string>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/model/routing.h"

namespace relibra::io {

/// Collective. Opens and validates all but the ids: attributes, shapes, types, offsets, shards that disagree,
/// miss or repeat. Throws Fault::input, agreed, naming file and dataset.
std::unique_ptr<RoutingSource> open_dump(const Comm& comm, const std::vector<std::string>& files);

struct DumpWriteOptions {
  bool deflate = false;  ///< chunks of whole rows near 1 MiB, shuffle and deflate 1; else contiguous
};

/// Collective: ranks write their shares of the rows to a temporary name beside `path`, flushed and renamed.
void write_dump(const Comm& comm, RoutingSource& source, const std::string& path,
                const DumpWriteOptions& options);

/// Step attribute of a file without opening the rest; for ordering the files of several steps. Collective.
std::vector<std::int64_t> steps_of(const Comm& comm, const std::vector<std::string>& files);

}  // namespace relibra::io
