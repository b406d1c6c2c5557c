#pragma once
// The description of one dump file: all but the rows, read and validated by one process.
#include <cstdint>
#include <string>
#include <vector>

#include "io/hdf5.h"
#include "lib/model/routing.h"

namespace relibra::io {

/// Optional per-sequence columns that a file may hold; bits of Shard::columns.
enum Column : std::uint32_t {
  kRowStart = 1,
  kNumTokens = 2,
  kMicroBatch = 4,
  kSourceRank = 8,
  kPromptTokens = 16,
  kGroup = 32,
  kDomain = 64
};

/// How the rows lie in a file.
struct RowStorage {
  IdType id_type = IdType::i32;  ///< in memory
  bool wide = false;             ///< stored wider than 32 bits signed: read as 64 bits and narrowed
  std::int64_t chunk_rows = 0;   ///< rows that are decoded together; 0: any
  bool parallel = true;          ///< parallel HDF5 can read it (not virtual, not in external files)
};

struct Shard {
  std::string file;
  std::int64_t shard = 0, num_shards = 0;  ///< num_shards 0: the file does not say
  RoutingHeader header;
  Sequences sequences;        ///< rows and sequences of this file, from 0
  std::uint32_t columns = 0;  ///< which Column the file has
  RowStorage storage;
};

/// Type of ids in memory and, as we write them, in files.
hid_t native_type(IdType type);

/// Local. Throws Fault::input naming file and dataset, and for values also the first sequence at fault and
/// the number of all.
Shard read_shard(const std::string& file);

/// The fields, for WireWriter and WireReader.
template <class Wire, class S>
void visit(Wire& wire, S& s) {
  wire(s.file), wire(s.shard), wire(s.num_shards), wire(s.columns), wire(s.storage);
  auto& h = s.header;
  wire(h.step), wire(h.num_experts), wire(h.top_k), wire(h.layers), wire(h.num_micro_batches);
  wire(h.optimizer_steps), wire(h.missing_id), wire(h.has_weights), wire(h.model), wire(h.producer);
  auto& q = s.sequences;
  wire(q.row_offset), wire(q.row_start), wire(q.num_tokens), wire(q.micro_batch), wire(q.source_rank);
  wire(q.prompt_tokens), wire(q.group), wire(q.domain);
}

}  // namespace relibra::io
