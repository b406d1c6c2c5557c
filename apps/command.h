#pragma once
// A subcommand of the driver: how it is declared and what it does.
#include <CLI/CLI.hpp>
#include <functional>
#include <span>

#include "lib/comm/comm.h"

namespace relibra {

/// What a subcommand does once its options are parsed. Collective; returns the exit status.
using Run = std::function<int(const Comm&)>;

struct Command {
  const char* name;
  const char* summary;
  const char* example;  ///< shown below the options by --help
  Run (*declare)(CLI::App& app);
};

/// Whether SIGUSR1 has arrived, Slurm's notice before the end of a job (--signal=USR1@120). It is taken note
/// of from the start of the program on; a subcommand that runs for hours heeds it.
bool has_notice();

/// The table of subcommands (apps/commands.cc).
std::span<const Command> commands();

}  // namespace relibra
