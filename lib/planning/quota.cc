#include "lib/planning/quota.h"

#include <algorithm>
#include <numeric>

namespace relibra {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// Builds for one domain, and the best of them. Its memory is used again by the next domain.
class QuotaSearch {
 public:
  void reset(const DomainLoad& domain, const QuotaOptions& options) {
    options_ = options;
    load_.assign(at(domain.ranks), 0);
    first_.assign(at(domain.ranks) + 1, 0);
    for (std::size_t e = 0; e < domain.load.size(); ++e) {
      load_[at(domain.home[e])] += domain.load[e];
      ++first_[at(domain.home[e]) + 1];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    next_.assign(first_.begin(), first_.end() - 1);
    experts_.resize(domain.load.size());
    for (std::size_t e = 0; e < domain.load.size(); ++e)
      experts_[at(next_[at(domain.home[e])]++)] = {domain.load[e], static_cast<std::int32_t>(e)};
    order_.resize(load_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
      return load_[at(a)] != load_[at(b)] ? load_[at(a)] > load_[at(b)] : a < b;
    });
    total_ = std::accumulate(load_.begin(), load_.end(), std::int64_t{0});
    best_.quotas.clear();
    best_.bound = (total_ + domain.ranks - 1) / domain.ranks;
    best_.max_load = most_loaded();
    sorted_ = 0;
  }

  const DomainPlan& search() {
    const std::int64_t mean = best_.bound, most = most_loaded();
    const std::int64_t start = mean + (mean + 99) / 100,
                       step = std::max<std::int64_t>(1, (most - mean) / 100);
    if (most <= start || build(start, Floor::shared)) return finished();
    for (int rise = 1; rise <= 3; ++rise)
      if (build(start + rise * step, Floor::shared)) break;
    if (!build(mean, Floor::fixed)) {
      std::int64_t low = mean, high = most;
      while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (build(middle, Floor::fixed) ? high : low) = middle;
      }
    }
    return finished();
  }

 private:
  enum class Floor { shared, fixed };
  struct Expert {
    std::int64_t load;
    std::int32_t expert;
  };

  std::int64_t most_loaded() const { return load_[at(order_.front())]; }

  /// Experts of the i-th most loaded rank, heaviest first.
  std::span<const Expert> heaviest_first(std::size_t i) {
    const auto of = [&](std::size_t k) {
      const std::size_t r = at(order_[k]);
      return std::span(experts_).subspan(at(first_[r]), at(first_[r + 1] - first_[r]));
    };
    for (; sorted_ <= i; ++sorted_) {
      const auto experts = of(sorted_);
      std::sort(experts.begin(), experts.end(), [](const Expert& a, const Expert& b) {
        return a.load != b.load ? a.load > b.load : a.expert < b.expert;
      });
    }
    return of(i);
  }

  /// Whether no rank is above the target at the end; keeps the quotas where they are the best so far.
  bool build(std::int64_t target, Floor form) {
    if (target >= best_.max_load) return true;
    std::int64_t excess = 0, room = 0;
    room_.resize(load_.size());
    for (std::size_t r = 0; r < load_.size(); ++r) {
      excess += std::max<std::int64_t>(load_[r] - target, 0);
      room_[r] = options_.slots > 0 ? std::max<std::int64_t>(target - load_[r], 0) : 0;
      room += room_[r];
    }
    if (excess > room) return false;
    used_.assign(load_.size(), 0);
    quotas_.clear();
    // Some rank is above the target, and is brought down to it at most; the others end at it or below.
    std::int64_t slowest = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const std::int64_t load = load_[at(order_[i])];
      if (load <= target) break;
      slowest = std::max(slowest, target + relieve(i, load - target, form));
      if (slowest >= best_.max_load) return false;
    }
    best_.max_load = slowest;
    std::swap(best_.quotas, quotas_);
    return slowest <= target;
  }

  /// Sends up to `need` away from the i-th most loaded rank; what is left of it.
  std::int64_t relieve(std::size_t i, std::int64_t need, Floor form) {
    for (const Expert& e : heaviest_first(i)) {
      std::int64_t left = e.load - 1;
      while (need > 0 && left > 0) {
        const auto to = std::max_element(room_.begin(), room_.end());
        const std::int64_t tokens = std::min({need, *to, left});
        if (tokens == 0 || tokens < floor(need, form)) break;
        const auto rank = static_cast<std::int32_t>(to - room_.begin());
        quotas_.push_back({e.expert, rank, tokens});
        *to = ++used_[at(rank)] < options_.slots ? *to - tokens : 0;
        need -= tokens;
        left -= tokens;
      }
      if (need == 0) break;
    }
    return need;
  }

  std::int64_t floor(std::int64_t need, Floor form) const {
    if (form == Floor::fixed) return options_.floor;
    return need / std::max<std::ptrdiff_t>(1, std::count_if(room_.begin(), room_.end(),
                                                            [](std::int64_t room) { return room > 0; }));
  }

  const DomainPlan& finished() {
    std::sort(best_.quotas.begin(), best_.quotas.end(), [](const Quota& a, const Quota& b) {
      return a.expert != b.expert ? a.expert < b.expert : a.rank < b.rank;
    });
    return best_;
  }

  QuotaOptions options_;
  std::vector<std::int64_t> load_;          // (ranks)
  std::vector<std::int32_t> first_, next_;  // (ranks + 1) offsets in experts_
  std::vector<Expert> experts_;             // by home
  std::vector<std::int32_t> order_;         // ranks, most loaded first
  std::size_t sorted_ = 0;                  // how many of them have their experts in order
  std::int64_t total_ = 0;
  std::vector<std::int64_t> room_;  // (ranks) below the target, where a slot is free
  std::vector<int> used_;           // (ranks) slots
  std::vector<Quota> quotas_;
  DomainPlan best_;
};

}  // namespace

DomainPlan plan_quotas(const DomainLoad& domain, const QuotaOptions& options) {
  thread_local QuotaSearch search;
  search.reset(domain, options);
  return search.search();
}

}  // namespace relibra
