#include "lib/planning/copy_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

#include "lib/base/error.h"

namespace relibra {
namespace {

using Row = std::vector<std::int32_t>;

Topology nodes_of(int ep_size, int gpus_per_node) {
  return {.ep_size = ep_size, .ep_groups = 1, .gpus_per_node = gpus_per_node};
}

TEST(CopyGraph, RingByHand) {
  const CopyGraph graph = copy_graph("ring", nodes_of(8, 4), 1);
  EXPECT_EQ(graph.ranks, 4);
  EXPECT_EQ(graph.from, (std::vector<Row>{{3, 0, 1, 2}}));
  EXPECT_EQ(copy_graph("ring", nodes_of(32, 16), 1).ranks, 8);
}

// The published cube: each rank copies from two others and is copied by two; 12 edges of a cube with faces 0
// 1 2 3 and 7 4 5 6, and four diagonals.
TEST(CopyGraph, CubeHasSixteenEdges) {
  const CopyGraph graph = copy_graph("cube", nodes_of(16, 8), 2);
  EXPECT_EQ(graph.from, (std::vector<Row>{{3, 0, 1, 2, 7, 4, 5, 6}, {6, 7, 4, 5, 0, 1, 2, 3}}));
}

// Every pair of ranks that differ in one bit, once.
TEST(CopyGraph, HypercubeHasEachEdgeOnce) {
  const CopyGraph graph = copy_graph("hypercube", nodes_of(32, 8), 2);
  std::set<std::pair<int, int>> edges;
  for (const Row& from : graph.from)
    for (int r = 0; r < 16; ++r) {
      const int other = from[static_cast<std::size_t>(r)];
      EXPECT_EQ(std::popcount(static_cast<unsigned>(r ^ other)), 1);
      EXPECT_TRUE(edges.insert({std::min(r, other), std::max(r, other)}).second);
    }
  EXPECT_EQ(edges.size(), 32u);
}

// Two nodes of three: slot 0 goes round in the node, slot 1 to the other node.
TEST(CopyGraph, TorusByHand) {
  EXPECT_EQ(copy_graph("torus", nodes_of(6, 3), 2).from,
            (std::vector<Row>{{2, 0, 1, 5, 3, 4}, {3, 4, 5, 0, 1, 2}}));
  // One node of six ranks: two rows of three. One of five: a ring. Nodes of one rank: a ring over nodes.
  EXPECT_EQ(copy_graph("torus", nodes_of(6, 6), 2).from, copy_graph("torus", nodes_of(6, 3), 2).from);
  EXPECT_EQ(copy_graph("torus", nodes_of(5, 5), 2).from, (std::vector<Row>{{4, 0, 1, 2, 3}}));
  EXPECT_EQ(copy_graph("torus", nodes_of(3, 1), 2).from, (std::vector<Row>{{2, 0, 1}}));
}

TEST(CopyGraph, AutoFitsEveryShape) {
  EXPECT_EQ(copy_graph("auto", nodes_of(16, 8), 1).name, "ring");
  EXPECT_EQ(copy_graph("auto", nodes_of(16, 8), 2).name, "cube");
  EXPECT_EQ(copy_graph("auto", nodes_of(16, 8), 4).name, "cube");
  EXPECT_EQ(copy_graph("auto", nodes_of(16, 4), 2).name, "torus");
  EXPECT_EQ(copy_graph("auto", nodes_of(1, 8), 2).slots(), 0);
  EXPECT_EQ(copy_graph("auto", nodes_of(16, 8), 0).slots(), 0);
}

// Every rank gives to one rank and takes from one, in each slot.
TEST(CopyGraph, RowsArePermutations) {
  for (const std::string_view name : copy_graph_names()) {
    const CopyGraph graph = copy_graph(name, nodes_of(16, 8), 2);
    for (Row from : graph.from) {
      std::sort(from.begin(), from.end());
      ASSERT_EQ(from.size(), static_cast<std::size_t>(graph.ranks));
      for (int r = 0; r < graph.ranks; ++r) EXPECT_EQ(from[static_cast<std::size_t>(r)], r);
    }
  }
}

TEST(CopyGraph, RefusesWhatDoesNotFit) {
  const auto fault = [](std::string_view name, const Topology& topology, int slots) -> std::string {
    try {
      copy_graph(name, topology, slots);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::usage);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(fault("star", nodes_of(8, 8), 2).find("found star"), std::string::npos);
  EXPECT_NE(fault("hypercube", nodes_of(8, 8), 2).find("16 ranks"), std::string::npos);
  EXPECT_NE(fault("cube", nodes_of(8, 8), 1).find("2 spare slots"), std::string::npos);
}

}  // namespace
}  // namespace relibra
