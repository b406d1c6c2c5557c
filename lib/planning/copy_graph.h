#pragma once
// LPLB's fixed graphs: spare slot d of a rank copies an expert of one other rank, so that every copy is an
// edge along which load can flow.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lib/model/topology.h"

namespace relibra {

/// The same graph on every run of `ranks` consecutive ranks of an EP group.
///
/// Example: a ring of 4 has one slot: from[0] = 3 0 1 2.
struct CopyGraph {
  std::string_view name;
  int ranks = 1;
  std::vector<std::vector<std::int32_t>> from;  ///< (slots used, ranks) whose expert the slot copies

  int slots() const { return static_cast<int>(from.size()); }
};

/// The names that copy_graph() takes, beside "auto".
std::span<const std::string_view> copy_graph_names();

/// * ring: 8 ranks, or the ranks of a node where 8 do not divide it; one slot, from the rank before.
/// * cube: 8 ranks, two slots; each of its edges and of four diagonals once.
/// * hypercube: 16 ranks, two slots; each edge once.
/// * torus: the whole group, two slots; from the rank before in the node, and from the same place in the node
///   before. Within one node: the most nearly square rectangle of its ranks.
/// * auto: ring where one slot is spare, the cube where there are two or more and a node has 8 ranks, else
/// the torus.
///
/// A slot in which every rank would copy from itself is left out, and all are where there are no spare slots.
/// Throws Fault::usage, naming --lplb-graph, for an unknown name and where ranks or slots are too few.
CopyGraph copy_graph(std::string_view name, const Topology& topology, int slots);

}  // namespace relibra
