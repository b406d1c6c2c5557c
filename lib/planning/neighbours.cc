#include "lib/planning/neighbours.h"

#include <algorithm>

#include "lib/planning/lanes.h"

namespace relibra {
namespace {

RELIBRA_ANY_WIDTH void distances_from(const ItemLoads& loads, int item, int others, float* distance) {
  const Vector* mine = vectors_of(loads.row(item));
  for (int j = 0; j < others; ++j) {
    const Vector* other = vectors_of(loads.row(j));
    Vector sum{};
    for (int v = 0; v < loads.vectors(); ++v) {
      const Vector d = mine[v] - other[v];
      sum += d * d;
    }
    distance[j] = sum_of(sum);
  }
}

}  // namespace

Neighbours::Neighbours(const ItemLoads& loads, int near, bool with_dummy) {
  const int others = loads.items() + (with_dummy ? 1 : 0);
  near_ = std::clamp(others - 1, 0, near);
  data_.reserve(static_cast<std::size_t>(loads.items() * near_));
  std::vector<float> distance(static_cast<std::size_t>(others));
  std::vector<std::pair<float, std::int32_t>> order;
  for (int i = 0; i < loads.items(); ++i) {
    distances_from(loads, i, others, distance.data());
    order.clear();
    for (std::int32_t j = 0; j < others; ++j)
      if (j != i) order.push_back({distance[static_cast<std::size_t>(j)], j});
    std::partial_sort(order.begin(), order.begin() + near_, order.end());
    for (int k = 0; k < near_; ++k) {
      data_.push_back(order[static_cast<std::size_t>(k)].second);
      mean_square_distance_ += static_cast<double>(order[static_cast<std::size_t>(k)].first);
    }
  }
  if (!data_.empty()) mean_square_distance_ /= static_cast<double>(data_.size());
}

}  // namespace relibra
