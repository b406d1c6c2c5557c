#pragma once
// Which backend and device a process runs on.
#include <memory>
#include <string>

#include "lib/comm/comm.h"
#include "lib/exec/device.h"
#include "lib/exec/transport.h"

namespace relibra::exec {

enum class BackendChoice { automatic, cpu, cuda };

struct ChosenDevice {
  std::unique_ptr<Device> device;
  int processes_on_host = 1;
  bool oversubscribed = false;  ///< more threads than cores on the host
  std::string why;              ///< a line for people: what was taken, and why not CUDA
};

/// Collective: all processes take the same backend, CUDA only where a device answers everywhere. Processes of
/// a host take its devices in turn; `shared` lets several take one (no transfers between them, then). Throws,
/// agreed, Fault::usage where there are fewer devices than processes and Fault::environment where CUDA was
/// asked for and does not answer.
ChosenDevice choose_backend(const Comm& comm, BackendChoice choice, bool shared);

/// The transport that goes with the device. Collective.
std::unique_ptr<Transport> make_transport(const Comm& comm, const ChosenDevice& chosen,
                                          const PlanHeader& header, double timeout_seconds);

}  // namespace relibra::exec
