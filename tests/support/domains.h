#pragma once
// Small domains to replicate in, for tests: hand-made, and random ones of several kinds.
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/random.h"
#include "lib/planning/replicate.h"

namespace relibra::test {

struct Domain {
  int ranks = 0;
  std::vector<std::int32_t> home;
  std::vector<std::int64_t> load;
  DomainLoad view() const { return {ranks, home, load}; }
};

/// loads[r] are the loads of the experts whose home is rank r.
inline Domain domain_of(const std::vector<std::vector<std::int64_t>>& loads) {
  Domain domain;
  domain.ranks = static_cast<int>(loads.size());
  for (std::size_t r = 0; r < loads.size(); ++r)
    for (std::int64_t load : loads[r]) {
      domain.home.push_back(static_cast<std::int32_t>(r));
      domain.load.push_back(load);
    }
  return domain;
}

/// `per_rank` experts a rank in order, `total` assignments shared by weights exp(spread * normal): as before
/// any reordering. `rank_spread` makes whole ranks hot the same way: many middling experts on one rank are
/// harder to take away than a few large ones.
inline Domain random_domain(Random& random, int ranks, int per_rank, double spread, std::int64_t total,
                            double rank_spread = 0) {
  std::vector<double> weight(static_cast<std::size_t>(ranks * per_rank));
  double sum = 0, hot = 1;
  for (std::size_t e = 0; e < weight.size(); ++e) {
    if (rank_spread > 0 && e % static_cast<std::size_t>(per_rank) == 0)
      hot = std::exp(rank_spread * random.normal());
    sum += weight[e] = hot * std::exp(spread * random.normal());
  }
  Domain domain;
  domain.ranks = ranks;
  for (std::size_t e = 0; e < weight.size(); ++e) {
    domain.home.push_back(static_cast<std::int32_t>(e) / per_rank);
    domain.load.push_back(std::llround(weight[e] / sum * static_cast<double>(total)));
  }
  return domain;
}

}  // namespace relibra::test
