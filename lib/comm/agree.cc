#include "lib/comm/agree.h"

namespace relibra {

void agree(const Comm& comm, const std::optional<Error>& mine) {
  const int first = comm.min(mine ? comm.rank() : comm.size());
  if (first == comm.size()) return;
  int fault = mine ? mine->exit_status() : 0;
  std::string message = mine ? mine->what() : "";
  comm.broadcast(fault, first);
  comm.broadcast(message, first);
  throw Error::with_message(static_cast<Fault>(fault), message).as_agreed();
}

}  // namespace relibra
