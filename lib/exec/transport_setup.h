#pragma once
// What the processes of a job do before their ranks can talk: each takes a device of its own, and they are
// joined by the transport that fits the backend.
#include <memory>

#include "lib/comm/comm.h"
#include "lib/exec/device.h"
#include "lib/exec/transport.h"

namespace relibra::exec {

/// The index of this process's device: the processes of a node take the devices that they see in turn. 0 on a
/// host. `shared` lets several take one (NCCL does not). Collective. Throws, agreed, Fault::usage where two
/// processes would share a device without that, and Fault::environment where none answers.
int choose_device(const Comm& comm, const kernels::Backend& backend, bool shared = false);

/// Rank r of the plan is rank r of `comm`: NCCL where the backend has networks between devices, else MPI.
/// Collective. Throws Fault::environment where a channel does not come up within the time-out.
std::unique_ptr<Transport> make_transport(const Comm& comm, const Device& device, const Topology& topology,
                                          ReplicaDomain domain, const TransportOptions& options);

}  // namespace relibra::exec
