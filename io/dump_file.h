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
/// miss or repeat. Shards are joined by their number, whatever their order here. Descriptions are read once
/// and sent to all ranks; no file stays open. Throws Fault::input, agreed, naming file and dataset.
///
/// The source reads a step in one file by collective I/O of all ranks. Of several files each rank opens those
/// that its ranges lie in, so that ranks with rows in different shards do not wait for each other. Ids that
/// are stored wider than 32 bits are handed out as i32, those that mean "no route" as -1.
std::unique_ptr<RoutingSource> open_dump(const Comm& comm, const std::vector<std::string>& files);

struct DumpWriteOptions {
  bool deflate = false;  ///< chunks of whole rows near 1 MiB, shuffle and deflate 1; else contiguous
};

/// Collective: ranks write their shares of the rows to a temporary name beside `path`, flushed and renamed;
/// removed on failure. Contiguous files are the same bytes for any number of ranks. Throws what `source`
/// throws, and Fault::environment where the file can't be written; agreed, except for a failure inside a
/// collective write of compressed chunks.
void write_dump(const Comm& comm, RoutingSource& source, const std::string& path,
                const DumpWriteOptions& options);

/// What a file is a part of: shard `shard` of `num_shards` of a step; num_shards 0: the file does not say.
struct DumpPart {
  std::int64_t step = 0, shard = 0, num_shards = 0;
};
/// Local. Reads attributes only. Throws Fault::input.
DumpPart part_of(const std::string& file);

/// Collective. The attribute `step` of each file, in their order; for grouping the files of several steps.
/// Throws Fault::input, agreed.
std::vector<std::int64_t> steps_of(const Comm& comm, const std::vector<std::string>& files);

}  // namespace relibra::io
