#pragma once
// What a watcher tells others and remembers over a restart: the content of status.json.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "io/dump_file.h"
#include "io/pending_file.h"
#include "lib/base/error.h"

namespace relibra {

/// A file of the watched folder as it was when it was looked at.
struct WatchedFile {
  std::string name;  ///< in the folder
  std::int64_t bytes = 0, modified_ns = 0;
  std::optional<io::DumpPart> part;  ///< empty where the file cannot be read

  /// Whether both are the same file, unchanged.
  bool operator==(const WatchedFile& other) const {
    return name == other.name && bytes == other.bytes && modified_ns == other.modified_ns;
  }
};

/// What is known of a plan that this run wrote.
struct StepFigures {
  double latency = 0;   ///< seconds from the look that found the dump complete to the plan under its name
  double planning = 0;  ///< seconds of it that the planning took
  double skew_before = 0, skew_after = 0;  ///< slowest rank / mean, mean over (cell, EP group)
  std::int64_t copies = 0, moves = 0;      ///< in all cells; experts
};

/// One step that has been dealt with.
struct StepRecord {
  enum class Result { planned, fell_back, failed };

  std::optional<std::int64_t> step;  ///< empty where the file does not say
  Result result = Result::planned;
  std::string plan;                    ///< name of the plan file in its folder
  std::vector<WatchedFile> files;      ///< by name
  std::optional<StepFigures> figures;  ///< empty where the plan was found
  Fault fault = Fault::input;          ///< of a failed step: its files', or that of the options
  std::string error;
};

/// Shards of a step that is not complete.
struct IncompleteStep {
  std::int64_t step = 0, shards = 0, of = 0;

  bool operator==(const IncompleteStep&) const = default;
};

struct WatchStatus {
  std::string state;   ///< "waiting", "planning", "ended" or "failed"
  std::string reason;  ///< of the end
  std::string folder, plans;
  io::Writer writer;  ///< rank 0
  int ranks = 0;
  std::string started, updated;            ///< UTC, "2026-01-31T23:59:59Z"
  std::int64_t steps_planned = 0;          ///< over all restarts
  std::optional<StepRecord> at_hand;       ///< while planning
  std::optional<StepRecord> last;          ///< the last one planned by this run
  std::vector<IncompleteStep> incomplete;  ///< by step
  std::vector<StepRecord> steps;           ///< those whose dumps are in the folder, by step
};

/// The time of now as in WatchStatus.
std::string utc_now();

/// {"format": "relibra.watch", "version": 1, "state", ..., "errors": those of steps that failed, "steps"}.
nlohmann::ordered_json status_json(const WatchStatus& status);

/// What the next run needs: `writer`, `steps_planned`, `steps`. Local. Throws Fault::input naming the file.
WatchStatus read_status(const std::string& path);

}  // namespace relibra
