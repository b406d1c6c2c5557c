#pragma once
// Options and output of the execution phase, shared by `run` and `plan --execute`.
#include <CLI/CLI.hpp>
#include <string>

#include "apps/terminal.h"
#include "lib/job/run.h"

namespace relibra {

struct RunArguments {
  RunOptions options;
  std::string trace;
};

/// --backend, --hidden, --verify, --baseline, ...: all but those for which `plan` has the name already.
void add_run(CLI::App& app, RunArguments& arguments);

/// Lines and progress to the terminal, which outlives it.
RunVoice voice_of(Terminal& terminal);

enum class RunOutput { text, json, none };

/// Collective. Prints the table or the document, writes the trace. The exit status: 1 where verification
/// failed.
int report_run(const Comm& comm, const RunArguments& arguments, const RunResult& result, RunOutput output);

}  // namespace relibra
