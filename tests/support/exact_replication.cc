#include "tests/support/exact_replication.h"

#include <coin/Cbc_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

namespace relibra::exact {
namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

// Variables: y[e,r] = 1 where rank r has a copy of expert e; x[e,r] assignments of e computed at r, the home
// keeps the rest; T the slowest rank. Rows:
//   x[e,r] <= min(load, T's upper limit) * y[e,r]
//   sum over r of x[e,r] <= load[e]
//   own load - what leaves + what comes <= T, for each rank
//   sum over e of y[e,r] <= slots, for each rank; sum over e of home h and r of y[e,r] <= max_fan_out
// Experts of one home differ only in how much may leave, so some optimum lets most leave from the largest,
// and at most (ranks - 1) * slots of them have copies: only those get variables, in that order.
class Model {
 public:
  Model(const DomainLoad& domain, const ReplicateOptions& options, std::int64_t low, std::int64_t high)
      : model_(Cbc_newModel()), domain_(domain), options_(options), high_(high) {
    Cbc_setLogLevel(model_, 0);
    target_ = column(static_cast<double>(low), static_cast<double>(high), true);
    for (int r = 0; r < domain.ranks; ++r) add_home(r);
    add_ranks();
  }
  ~Model() { Cbc_deleteModel(model_); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  Program least_target(double seconds) {
    Cbc_setObjCoeff(model_, target_, 1);
    return solve(seconds);
  }
  Program least_copies(double seconds) {
    for (const Pair& p : pairs_) Cbc_setObjCoeff(model_, p.y, 1);
    return solve(seconds);
  }

 private:
  struct Pair {
    int expert, rank, x, y;
  };

  int column(double low, double high, bool integer) {
    Cbc_addCol(model_, name("c", columns_).c_str(), low, high, 0, integer ? 1 : 0, 0, nullptr, nullptr);
    return columns_++;
  }
  void row(const std::vector<int>& columns, const std::vector<double>& factors, double limit) {
    if (columns.empty()) return;
    Cbc_addRow(model_, name("r", rows_++).c_str(), static_cast<int>(columns.size()), columns.data(),
               factors.data(), 'L', limit);
  }
  static std::string name(const char* prefix, int i) { return prefix + std::to_string(i); }

  void add_home(int home) {
    std::vector<int> experts;
    for (std::size_t e = 0; e < domain_.home.size(); ++e)
      if (domain_.home[e] == home && domain_.load[e] > 0) experts.push_back(static_cast<int>(e));
    std::stable_sort(experts.begin(), experts.end(),
                     [&](int a, int b) { return domain_.load[at(a)] > domain_.load[at(b)]; });
    experts.resize(std::min(experts.size(), at((domain_.ranks - 1) * options_.slots)));
    std::vector<int> before, fan;
    for (int e : experts) {
      const auto load = static_cast<double>(domain_.load[at(e)]);
      std::vector<int> leaving;
      for (int r = 0; r < domain_.ranks; ++r) {
        if (r == home) continue;
        const double most = std::min(load, static_cast<double>(high_));
        const Pair p{e, r, column(0, most, false), column(0, 1, true)};
        row({p.x, p.y}, {1, -most}, 0);
        pairs_.push_back(p);
        leaving.push_back(p.x);
        fan.push_back(p.y);
      }
      row(leaving, std::vector<double>(leaving.size(), 1), load);
      std::vector<int> order = leaving;
      std::vector<double> factors(leaving.size(), 1);
      order.insert(order.end(), before.begin(), before.end());
      factors.resize(order.size(), -1);
      if (!before.empty()) row(order, factors, 0);
      before = leaving;
    }
    if (options_.max_fan_out > 0) row(fan, std::vector<double>(fan.size(), 1), options_.max_fan_out);
  }

  void add_ranks() {
    for (int r = 0; r < domain_.ranks; ++r) {
      std::vector<int> columns{target_}, slots;
      std::vector<double> factors{-1};
      double own = 0;
      for (std::size_t e = 0; e < domain_.home.size(); ++e)
        if (domain_.home[e] == r) own += static_cast<double>(domain_.load[e]);
      for (const Pair& p : pairs_) {
        const bool leaves = domain_.home[at(p.expert)] == r;
        if (!leaves && p.rank != r) continue;
        columns.push_back(p.x);
        factors.push_back(leaves ? -1 : 1);
        if (!leaves) slots.push_back(p.y);
      }
      row(columns, factors, -own);
      row(slots, std::vector<double>(slots.size(), 1), options_.slots);
    }
  }

  Program solve(double seconds) {
    Cbc_setMaximumSeconds(model_, seconds);
    Cbc_solve(model_);
    if (Cbc_isProvenInfeasible(model_)) return {true, std::nullopt};
    if (Cbc_isProvenOptimal(model_)) return {true, std::llround(Cbc_getObjValue(model_))};
    return {false, static_cast<std::int64_t>(std::ceil(Cbc_getBestPossibleObjValue(model_) - 1e-6))};
  }

  Cbc_Model* model_;
  const DomainLoad& domain_;
  const ReplicateOptions& options_;
  std::int64_t high_;
  int target_ = 0, columns_ = 0, rows_ = 0;
  std::vector<Pair> pairs_;
};

}  // namespace

std::int64_t best_split(const DomainLoad& domain, std::span<const std::vector<std::int32_t>> holders) {
  std::int64_t best = 0;
  for (unsigned set = 1; set < (1u << domain.ranks); ++set) {
    std::int64_t inside = 0, size = 0;
    for (int r = 0; r < domain.ranks; ++r) size += (set >> r) & 1u;
    for (std::size_t e = 0; e < domain.load.size(); ++e)
      if (std::all_of(holders[e].begin(), holders[e].end(), [&](std::int32_t r) { return (set >> r) & 1u; }))
        inside += domain.load[e];
    best = std::max(best, (inside + size - 1) / size);
  }
  return best;
}

std::vector<std::vector<std::int32_t>> holders_of(const DomainLoad& domain, std::span<const Quota> copies) {
  std::vector<std::vector<std::int32_t>> holders;
  for (std::int32_t home : domain.home) holders.push_back({home});
  for (const Quota& copy : copies) holders[at(copy.expert)].push_back(copy.rank);
  return holders;
}

std::int64_t best_by_enumeration(const DomainLoad& domain, int slots, int max_fan_out) {
  auto holders = holders_of(domain, {});
  std::vector<int> free(at(domain.ranks), slots);
  std::vector<int> fan(at(domain.ranks), max_fan_out > 0 ? max_fan_out : 1 << 30);
  std::int64_t best = best_split(domain, holders);
  const std::function<void(int)> choose = [&](int pair) {
    if (pair == static_cast<int>(domain.load.size()) * domain.ranks) {
      best = std::min(best, best_split(domain, holders));
      return;
    }
    choose(pair + 1);
    const std::size_t e = at(pair / domain.ranks), r = at(pair % domain.ranks), h = at(domain.home[e]);
    if (r == h || free[r] == 0 || fan[h] == 0) return;
    --free[r], --fan[h];
    holders[e].push_back(static_cast<std::int32_t>(r));
    choose(pair + 1);
    holders[e].pop_back();
    ++free[r], ++fan[h];
  };
  choose(0);
  return best;
}

Program best_below(const DomainLoad& domain, const ReplicateOptions& options, std::int64_t bound,
                   std::int64_t below, double seconds) {
  if (bound >= below) return {true, std::nullopt};
  return Model(domain, options, bound, below - 1).least_target(seconds);
}

Program fewest_copies(const DomainLoad& domain, const ReplicateOptions& options, std::int64_t limit,
                      double seconds) {
  return Model(domain, options, 0, limit).least_copies(seconds);
}

}  // namespace relibra::exact
