#include "lib/planning/eplb.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace relibra {
namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

/// Expert in each of `slots` slots, the first copies of all in order, then the others as they were given;
/// and the load that a slot carries.
struct Slots {
  std::vector<std::int32_t> expert;
  std::vector<float> load;
};

Slots give_slots(std::span<const float> load, int slots) {
  Slots given;
  given.expert.resize(load.size());
  std::iota(given.expert.begin(), given.expert.end(), 0);
  std::vector<float> copies(load.size(), 1), share(load.begin(), load.end());
  while (given.expert.size() < at(slots)) {
    const auto hottest =
        static_cast<std::size_t>(std::max_element(share.begin(), share.end()) - share.begin());
    given.expert.push_back(static_cast<std::int32_t>(hottest));
    share[hottest] = load[hottest] / ++copies[hottest];
  }
  for (std::int32_t e : given.expert) given.load.push_back(share[at(e)]);
  return given;
}

/// Experts by node, (nodes, experts / nodes): whole groups, packed by their sums.
std::vector<std::int32_t> experts_of_nodes(std::span<const float> load, int groups, int nodes) {
  const std::size_t size = load.size() / at(groups), per_node = at(groups / nodes);
  std::vector<float> sum;
  for (std::size_t g = 0; g < at(groups); ++g) {
    const auto members = load.subspan(g * size, size);
    sum.push_back(std::accumulate(members.begin(), members.end(), 0.0f));
  }
  const EvenPacks packs = pack_evenly(sum, nodes);
  std::vector<std::int32_t> experts(load.size());
  for (std::size_t g = 0; g < at(groups); ++g) {
    const std::size_t first = (at(packs.bin[g]) * per_node + at(packs.place[g])) * size;
    std::iota(experts.begin() + static_cast<std::ptrdiff_t>(first),
              experts.begin() + static_cast<std::ptrdiff_t>(first + size),
              static_cast<std::int32_t>(g * size));
  }
  return experts;
}

}  // namespace

EvenPacks pack_evenly(std::span<const float> weight, int bins) {
  const std::size_t items = weight.size(), most = (items + at(bins) - 1) / at(bins);
  EvenPacks packs{std::vector<std::int32_t>(items), std::vector<std::int32_t>(items, 0)};
  if (items == at(bins)) {
    std::iota(packs.bin.begin(), packs.bin.end(), 0);
    return packs;
  }
  std::vector<std::int32_t> order(items);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return weight[at(a)] != weight[at(b)] ? weight[at(a)] > weight[at(b)] : a < b;
  });
  struct Bin {
    float load = 0;
    std::int32_t index = 0, items = 0;
  };
  std::vector<Bin> open(at(bins));  // bins that are not full, by index
  for (std::size_t b = 0; b < open.size(); ++b) open[b].index = static_cast<std::int32_t>(b);
  for (std::int32_t item : order) {
    const auto lightest = std::min_element(open.begin(), open.end(),
                                           [](const Bin& a, const Bin& b) { return a.load < b.load; });
    packs.bin[at(item)] = lightest->index;
    packs.place[at(item)] = lightest->items++;
    lightest->load += weight[at(item)];
    if (at(lightest->items) == most) open.erase(lightest);
  }
  return packs;
}

std::vector<std::int32_t> eplb(std::span<const float> load, const EplbShape& shape) {
  const bool hierarchical = is_hierarchical(shape);
  const int nodes = hierarchical ? shape.nodes : 1, groups = hierarchical ? shape.groups : 1;
  assert(load.size() % at(groups) == 0 && shape.ranks % nodes == 0 && shape.slots % nodes == 0 &&
         at(shape.slots) >= load.size());
  const std::size_t per_rank = at(ceil_div(shape.slots, shape.ranks)), ranks = at(shape.ranks / nodes),
                    per_node = load.size() / at(nodes);
  std::vector<std::int32_t> slots(at(shape.ranks) * per_rank, -1);
  const std::vector<std::int32_t> experts = experts_of_nodes(load, groups, nodes);
  std::vector<float> of_node(per_node);
  for (std::size_t n = 0; n < at(nodes); ++n) {
    const std::int32_t* member = experts.data() + n * per_node;
    for (std::size_t i = 0; i < per_node; ++i) of_node[i] = load[at(member[i])];
    const Slots given = give_slots(of_node, shape.slots / nodes);
    const EvenPacks packs = pack_evenly(given.load, static_cast<int>(ranks));
    for (std::size_t s = 0; s < given.expert.size(); ++s)
      slots[(n * ranks + at(packs.bin[s])) * per_rank + at(packs.place[s])] = member[given.expert[s]];
  }
  return slots;
}

}  // namespace relibra
