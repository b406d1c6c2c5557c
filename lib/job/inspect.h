#pragma once
// What is in a dump or a plan, for `relibra inspect`.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/cost/metrics.h"
#include "lib/job/plan.h"

namespace relibra {

enum class FileKind { dump, plan };

/// Collective. Throws Fault::input, agreed, where the file is neither.
FileKind kind_of(const Comm& comm, const std::string& path);

/// What reading all rows tells.
struct DeepFindings {
  std::string digest;
  RoutingFindings routing;
  Statistics busiest;  ///< over layers: assignments of the busiest expert / mean over experts
};

/// What is in a dump: all but the rows, unless looked at deeply.
struct DumpFacts {
  RoutingHeader header;
  IdType id_type = IdType::i32;
  std::int64_t rows = 0, sequences = 0, tokens = 0;
  std::int64_t id_bytes = 0;       ///< of /experts, uncompressed
  Statistics sequence_rows;        ///< rows a sequence
  Statistics rows_of_micro_batch;  ///< where the dump fixes micro-batches
  int micro_batches = 0;           ///< M; 0 where neither attribute nor column says
  int source_ranks = 0;            ///< largest source rank + 1; 0 where the planner assigns them
  std::int64_t prompt_groups = 0;  ///< distinct; 0 where not recorded
  std::vector<std::pair<std::string, std::int64_t>> domains;  ///< name and sequences, by name
  std::optional<DeepFindings> deep;
};

/// Collective. One dump in one file or its shards. `deep` reads and validates every row.
DumpFacts inspect_dump(const Comm& comm, const std::vector<std::string>& files, bool deep,
                       const CountOptions& count = {});

const char* name_of(IdType type);  ///< "u8"

/// {"kind": "dump", "step", ..., "deep": {...} or null}.
nlohmann::ordered_json dump_json(const DumpFacts& facts);

/// {"kind": "plan", header_json ..., "sequences", "transfers", "summary": summary_json}.
nlohmann::ordered_json plan_json(const Plan& plan, bool transfers, const PlanSamples& samples);

}  // namespace relibra
