#include "lib/exec/transport.h"

#include <string>

#include "lib/base/error.h"

namespace relibra::exec {

std::vector<RankId> channel_ranks(const Topology& topology, ReplicaDomain domain, Channel channel,
                                  RankId rank) {
  std::vector<RankId> members;
  for (RankId r : all<RankId>(topology.world())) {
    const bool group = topology.group_of(r) == topology.group_of(rank);
    const bool node = topology.node_of(r) == topology.node_of(rank);
    const bool home = topology.ep_rank_of(r) == topology.ep_rank_of(rank);
    const bool member = channel == Channel::tokens    ? group
                        : channel == Channel::weights ? group && (node || domain == ReplicaDomain::group)
                                                      : home;
    if (member) members.push_back(r);
  }
  return members;
}

int index_in(const std::vector<RankId>& members, RankId rank) {
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i] == rank) return static_cast<int>(i);
  throw_environment({.where = "transport",
                     .expected = "a rank of the channel",
                     .found = "rank " + std::to_string(rank.value())});
}

}  // namespace relibra::exec
