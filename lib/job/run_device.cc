#include "lib/job/run_device.h"

#include <omp.h>

#include "kernels/registry.h"
#include "lib/comm/agree.h"
#include "lib/exec/mpi_transport.h"
#include "lib/exec/nccl_transport.h"

namespace relibra {
namespace {

/// This process among those that share its host's memory.
struct Local {
  int rank = 0, size = 1;
};

Local local_place(const Comm& comm) {
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm.handle(), MPI_COMM_TYPE_SHARED, comm.rank(), MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  const Comm local(host);
  const Local place{local.rank(), local.size()};
  check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
  return place;
}

void check_device_count(const kernels::Backend& cuda, const Local& local, bool shared) {
  std::int32_t devices = 0;
  exec::check(cuda, cuda.device_count(&devices), "device_count");
  if (local.size <= devices || shared) return;
  throw_usage({.where = "--backend",
               .expected = "a GPU for each of the " + std::to_string(local.size) + " processes of a host",
               .found = std::to_string(devices) + " (NCCL takes one rank a GPU)",
               .advice = "start fewer processes a host, or use --emulate or --backend cpu"});
}

}  // namespace

ChosenDevice choose_device(const Comm& comm, BackendChoice choice, bool shared) {
  const Local local = local_place(comm);
  std::string why_not = "not asked for";
  const kernels::Backend* cuda = choice == BackendChoice::cpu ? nullptr : kernels::open_cuda_backend(why_not);
  const bool everywhere = comm.min(cuda ? 1 : 0) == 1;
  ChosenDevice chosen{.processes_on_host = local.size};
  chosen.oversubscribed = local.size * omp_get_max_threads() > omp_get_num_procs();
  agreed(comm, [&] {
    if (choice == BackendChoice::cuda && !cuda)
      throw_environment(
          {.where = "--backend cuda", .found = why_not, .advice = "--backend cpu runs without"});
    const kernels::Backend& backend = everywhere ? *cuda : kernels::reference_backend();
    std::int32_t devices = 1;
    if (everywhere) {
      check_device_count(*cuda, local, shared);
      exec::check(backend, backend.device_count(&devices), "device_count");
    }
    chosen.device = std::make_unique<exec::Device>(backend, local.rank % devices);
    chosen.why =
        std::string("backend ") + (everywhere ? "cuda" : "cpu") + " on " + chosen.device->info().name;
    if (!everywhere) chosen.why += " (cuda: " + (cuda ? "not on every rank" : why_not) + ")";
  });
  return chosen;
}

std::unique_ptr<exec::Transport> make_transport(const Comm& comm, const ChosenDevice& chosen,
                                                const PlanHeader& header, double timeout_seconds) {
  const exec::TransportOptions options{.timeout_seconds = timeout_seconds,
                                       .oversubscribed = chosen.oversubscribed};
  const exec::Device& device = *chosen.device;
  if (device.backend().network_create)
    return std::make_unique<exec::NcclTransport>(comm, device, header.topology, header.replica_domain,
                                                 options);
  return std::make_unique<exec::MpiTransport>(comm, device, header.topology, header.replica_domain, options);
}

}  // namespace relibra
