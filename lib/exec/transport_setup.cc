#include "lib/exec/transport_setup.h"

#include <cstring>
#include <string>

#include "lib/comm/agree.h"
#include "lib/exec/mpi_transport.h"
#include "lib/exec/nccl_transport.h"

namespace relibra::exec {
namespace {

/// The processes that share this one's memory, as a communicator for the life of the object.
class NodeComm {
 public:
  explicit NodeComm(const Comm& comm) {
    check_mpi(MPI_Comm_split_type(comm.handle(), MPI_COMM_TYPE_SHARED, comm.rank(), MPI_INFO_NULL, &handle_),
              "MPI_Comm_split_type");
  }
  ~NodeComm() { MPI_Comm_free(&handle_); }
  NodeComm(const NodeComm&) = delete;
  NodeComm& operator=(const NodeComm&) = delete;
  Comm comm() const { return Comm(handle_); }

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
};

struct Taken {
  char bus[sizeof kernels::DeviceInfo::bus] = {};
};

int device_for(const Comm& node, const kernels::Backend& backend) {
  std::int32_t count = 0;
  check(backend, backend.device_count(&count), "device_count");
  if (count < 1)
    throw_environment(
        {.where = "--backend cuda", .expected = "a CUDA device", .found = backend.last_error()});
  return node.rank() % count;
}

void refuse_shared(const Comm& node, const std::vector<Taken>& taken) {
  for (int other = 0; other < node.size(); ++other) {
    const char* mine = taken[static_cast<std::size_t>(node.rank())].bus;
    if (!*mine || other == node.rank() || std::strcmp(taken[static_cast<std::size_t>(other)].bus, mine) != 0)
      continue;
    throw_usage({.where = "--backend",
                 .expected = "a GPU for each of the " + std::to_string(node.size()) + " processes of a host",
                 .found = "two of them on the GPU at " + std::string(mine) + " (NCCL takes one rank a GPU)",
                 .advice = "start fewer processes a host, or use --emulate or --backend cpu"});
  }
}

/// The first rank of each channel makes its id.
ChannelIds share_ids(const Comm& comm, const Device& device, const Topology& topology, ReplicaDomain domain) {
  const RankId rank(comm.rank());
  const auto first = [&](std::size_t c) {
    return channel_ranks(topology, domain, static_cast<Channel>(c), rank).front();
  };
  ChannelIds ids;
  agreed(comm, [&] {
    for (std::size_t c = 0; c < ids.size(); ++c)
      if (first(c) == rank) device.check(device.backend().network_id(&ids[c]), "network_id");
  });
  const auto all_ids = comm.gather_all(std::span<const ChannelIds>(&ids, 1));
  for (std::size_t c = 0; c < ids.size(); ++c) ids[c] = all_ids[first(c).index()][c];
  return ids;
}

}  // namespace

int choose_device(const Comm& comm, const kernels::Backend& backend, bool shared) {
  const NodeComm node(comm);
  int index = 0;
  Taken mine;
  agreed(comm, [&] {
    index = device_for(node.comm(), backend);
    const Device device(backend, index);
    std::memcpy(mine.bus, device.info().bus, sizeof mine.bus);
  });
  const auto taken = node.comm().gather_all(std::span<const Taken>(&mine, 1));
  if (!shared) agreed(comm, [&] { refuse_shared(node.comm(), taken); });
  return index;
}

std::unique_ptr<Transport> make_transport(const Comm& comm, const Device& device, const Topology& topology,
                                          ReplicaDomain domain, const TransportOptions& options) {
  if (!device.backend().network_create)
    return std::make_unique<MpiTransport>(comm, device, topology, domain, options);
  const RankId rank(comm.rank());
  const ChannelIds ids = share_ids(comm, device, topology, domain);
  std::unique_ptr<Transport> transport;
  agreed(comm,
         [&] { transport = std::make_unique<NcclTransport>(device, topology, domain, rank, ids, options); });
  return transport;
}

}  // namespace relibra::exec
