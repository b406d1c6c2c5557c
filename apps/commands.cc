// One line a subcommand; each is a file of its own.
#include "apps/command.h"

namespace relibra {

extern const Command kCheckCommand, kCompareCommand, kImportCommand, kInspectCommand, kPlanCommand,
    kReportCommand, kRunCommand, kSynthCommand, kWatchCommand;

std::span<const Command> commands() {
  static const Command table[] = {
      kSynthCommand,  kPlanCommand, kCheckCommand,  kCompareCommand, kInspectCommand,
      kReportCommand, kRunCommand,  kImportCommand, kWatchCommand,
  };
  return table;
}

}  // namespace relibra
