#include "lib/planning/copy_graph.h"

#include <algorithm>
#include <ranges>
#include <string>

#include "lib/base/error.h"

namespace relibra {
namespace {

constexpr std::string_view kNames[] = {"ring", "cube", "hypercube", "torus"};

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

CopyGraph empty_graph(std::string_view name, int ranks, int slots) {
  return {name, ranks,
          std::vector<std::vector<std::int32_t>>(at(slots), std::vector<std::int32_t>(at(ranks)))};
}

CopyGraph ring(int ranks) {
  CopyGraph graph = empty_graph("ring", ranks, 1);
  for (int r = 0; r < ranks; ++r) graph.from[0][at(r)] = (r + ranks - 1) % ranks;
  return graph;
}

CopyGraph cube() {
  return {"cube", 8, {{3, 0, 1, 2, 7, 4, 5, 6}, {6, 7, 4, 5, 0, 1, 2, 3}}};
}

/// Rank (i, j) is i * columns + j. Slot 0 copies from the rank before in the row, slot 1 from the one before
/// in the column.
CopyGraph torus(std::string_view name, int rows, int columns) {
  CopyGraph graph = empty_graph(name, rows * columns, 2);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      graph.from[0][at(i * columns + j)] = i * columns + (j + columns - 1) % columns;
      graph.from[1][at(i * columns + j)] = (i + rows - 1) % rows * columns + j;
    }
  return graph;
}

/// The rows of ranks are Gray codes, so that neighbours in a row or a column differ in one bit: a ring of
/// four twice over is the hypercube.
CopyGraph hypercube() {
  constexpr int kGray[] = {0, 1, 3, 2};
  const CopyGraph places = torus("hypercube", 4, 4);
  CopyGraph graph = places;
  const auto rank = [&](int place) { return kGray[place / 4] * 4 + kGray[place % 4]; };
  for (int slot = 0; slot < 2; ++slot)
    for (int p = 0; p < 16; ++p) graph.from[at(slot)][at(rank(p))] = rank(places.from[at(slot)][at(p)]);
  return graph;
}

CopyGraph torus_of(const Topology& topology) {
  int columns = topology.domain_size();
  if (columns == topology.ep_size)
    for (int rows = 1; rows * rows <= topology.ep_size; ++rows)
      if (topology.ep_size % rows == 0) columns = topology.ep_size / rows;
  return torus("torus", topology.ep_size / columns, columns);
}

int ring_size(const Topology& topology) {
  return topology.domain_size() % 8 == 0 ? 8 : topology.domain_size();
}

std::string_view chosen(const Topology& topology, int slots) {
  if (slots == 1) return "ring";
  return topology.domain_size() == 8 ? "cube" : "torus";
}

}  // namespace

std::span<const std::string_view> copy_graph_names() {
  return kNames;
}

CopyGraph copy_graph(std::string_view name, const Topology& topology, int slots) {
  if (name == "auto") name = chosen(topology, slots);
  CopyGraph graph;
  if (name == "ring")
    graph = ring(ring_size(topology));
  else if (name == "cube")
    graph = cube();
  else if (name == "hypercube")
    graph = hypercube();
  else if (name == "torus")
    graph = torus_of(topology);
  else
    throw_usage({.where = "--lplb-graph",
                 .expected = "auto, ring, cube, hypercube or torus",
                 .found = std::string(name)});
  if (topology.ep_size % graph.ranks != 0)
    throw_usage({.where = "--lplb-graph",
                 .expected = "an EP size that the " + std::to_string(graph.ranks) + " ranks of a " +
                             std::string(name) + " divide",
                 .found = std::to_string(topology.ep_size),
                 .advice = "ring, torus and auto fit every EP size"});
  std::erase_if(graph.from, [](const std::vector<std::int32_t>& from) {
    return std::ranges::equal(from, std::views::iota(0, static_cast<int>(from.size())));
  });
  if (slots > 0 && slots < graph.slots())
    throw_usage({.where = "--lplb-graph",
                 .expected = std::to_string(graph.slots()) + " spare slots (--replica-slots) for a " +
                             std::string(name),
                 .found = std::to_string(slots),
                 .advice = "one slot makes a ring"});
  if (slots == 0) graph.from.clear();
  return graph;
}

}  // namespace relibra
