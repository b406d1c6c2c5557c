#pragma once
// The shape of the training job: who is in which EP group and on which node.
#include <algorithm>

#include "lib/base/ids.h"

namespace relibra {

/// Ranks are global, 0..W-1 with W = D*P: EP group rank/P, node rank/G. G divides P or P divides G.
///
/// Example: P = 4, D = 2, G = 2: ranks 0..7, groups {0..3} {4..7}, nodes {0,1} {2,3} {4,5} {6,7}; a group
/// spans 2 nodes. Example: P = 2, D = 4, G = 4: nodes {0..3} {4..7} hold two groups each; a group's domain is
/// its 2 ranks.
struct Topology {
  int ep_size = 1;        ///< P
  int ep_groups = 1;      ///< D
  int gpus_per_node = 1;  ///< G

  int world() const { return ep_size * ep_groups; }
  int nodes() const { return (world() + gpus_per_node - 1) / gpus_per_node; }

  /// Ranks of one group that share a node: the replica domain "node". min(G, P).
  int domain_size() const { return std::min(gpus_per_node, ep_size); }
  /// Domains of one group: P / domain_size().
  int domains_per_group() const { return ep_size / domain_size(); }

  GroupId group_of(RankId r) const { return GroupId(r.value() / ep_size); }
  NodeId node_of(RankId r) const { return NodeId(r.value() / gpus_per_node); }
  EpRankId ep_rank_of(RankId r) const { return EpRankId(r.value() % ep_size); }
  RankId rank_of(GroupId g, EpRankId p) const { return RankId(g.value() * ep_size + p.value()); }
  /// Domain (0 .. domains_per_group()-1) of a rank of the group.
  int domain_of(EpRankId p) const { return p.value() / domain_size(); }

  bool operator==(const Topology&) const = default;
};

/// Throws Fault::usage naming the option unless P, D, G are at least 1 and G divides P or P divides G.
void validate(const Topology& topology);

}  // namespace relibra
