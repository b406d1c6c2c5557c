// One line a subcommand; each is a file of its own.
#include "apps/command.h"

namespace relibra {

extern const Command kImportCommand, kSynthCommand;

std::span<const Command> commands() {
  static const Command table[] = {
      kSynthCommand,
      kImportCommand,
  };
  return table;
}

}  // namespace relibra
