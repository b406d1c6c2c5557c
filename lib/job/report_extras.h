#pragma once
// Documents of other subcommands that a report shows beside the plans.
#include <nlohmann/json.hpp>
#include <string>

#include "lib/job/report.h"

namespace relibra {

/// What the page needs of a trace in Chrome's format: {"tracks": [{"process", "name"}], "names": [...],
/// "events": {"track", "name", "gap", "length", "micro_batch", "layer", "backward"}, "left_out"}. Events are
/// sorted by track, then begin; all packed (report_pack.h). gap: since the event before on its track began,
/// or since 0; gap and length in tenths of microseconds; micro_batch and layer: 0 where not said, else the
/// number + 1. Of more than `most` events the first in time are kept and the others counted as left_out.
///
/// Local. `where` names the file. Throws Fault::input where the text is no such trace.
nlohmann::ordered_json report_trace(const std::string& where, const std::string& text,
                                    std::size_t most = 500'000);

/// The document of `compare --json`. Local. Throws Fault::input naming `where` where the text is none.
nlohmann::ordered_json report_compare(const std::string& where, const std::string& text);

/// Collective; on rank 0, elsewhere null. An empty path is null. Throws Fault::input, agreed.
ReportExtras read_extras(const Comm& comm, const std::string& compare, const std::string& trace);

}  // namespace relibra
