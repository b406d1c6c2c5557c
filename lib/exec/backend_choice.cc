#include "lib/exec/backend_choice.h"

#include <omp.h>

#include "kernels/registry.h"
#include "lib/comm/agree.h"
#include "lib/exec/transport_setup.h"

namespace relibra::exec {
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

}  // namespace

ChosenDevice choose_backend(const Comm& comm, BackendChoice choice, bool shared) {
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
  });
  const kernels::Backend& backend = everywhere ? *cuda : kernels::reference_backend();
  const int index = choose_device(comm, backend, shared);
  agreed(comm, [&] {
    chosen.device = std::make_unique<Device>(backend, index);
    chosen.why =
        std::string("backend ") + (everywhere ? "cuda" : "cpu") + " on " + chosen.device->info().name;
    if (!everywhere) chosen.why += " (cuda: " + (cuda ? "not on every rank" : why_not) + ")";
  });
  return chosen;
}

std::unique_ptr<Transport> make_transport(const Comm& comm, const ChosenDevice& chosen,
                                          const PlanHeader& header, double timeout_seconds) {
  return make_transport(comm, *chosen.device, header.topology, header.replica_domain,
                        {.timeout_seconds = timeout_seconds, .oversubscribed = chosen.oversubscribed});
}

}  // namespace relibra::exec
