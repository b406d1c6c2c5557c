#include "lib/planning/anneal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "lib/base/random.h"
#include "lib/planning/lanes.h"
#include "lib/planning/neighbours.h"

namespace relibra {
namespace {

/// -ln(u) at the midpoints of equal shares of (0, 1): what a worsening is compared with, in temperatures.
/// Made of basic operations only, because a library's logarithm may differ between machines in the last bit.
class Exponentials {
 public:
  static constexpr int kBits = 10;
  Exponentials() {
    for (int i = 0; i < 1 << kBits; ++i)
      value_[static_cast<std::size_t>(i)] = static_cast<float>(minus_log((i + 0.5) / (1 << kBits)));
  }
  float operator[](std::uint64_t bits) const { return value_[bits & ((1u << kBits) - 1)]; }

 private:
  static double minus_log(double u) {
    double shift = 0;
    for (; u < 0.70710678118654752; u *= 2) shift += 0.69314718055994531;
    const double z = (1 - u) / (1 + u), square = z * z;  // -ln u = 2 artanh z
    double sum = 0;
    for (int k = 39; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return shift + 2 * z * sum;
  }
  std::array<float, 1 << kBits> value_;
};

/// From `start` down to `start / 2^halvings`, halving at equal distances and straight in between.
struct Schedule {
  double start, halvings;
  float at(std::int64_t move, std::int64_t moves) const {
    const double e = halvings * static_cast<double>(move) / static_cast<double>(moves);
    const int whole = static_cast<int>(e);
    return static_cast<float>(std::ldexp(start * (1 - (e - whole) / 2), -whole));
  }
};

/// Change in the number of priced items when item a leaves bin p for q and b comes the other way.
int newly_moved(const BinObjective& objective, int a, int p, int b, int q) {
  const auto before = [&](int item) {
    const auto i = static_cast<std::size_t>(item);
    return i < objective.before.size() ? objective.before[i] : -1;
  };
  return (before(a) == p) - (before(a) == q) + (before(b) == q) - (before(b) == p);
}

/// Bits of one random number as several choices.
struct Draw {
  std::uint64_t bits;
  std::uint32_t item(std::uint32_t bound) const { return below(bits, bound); }
  std::uint32_t partner(std::uint32_t bound) const { return below(bits >> 18, bound); }
  std::uint32_t dummy(std::uint32_t bound) const { return below(bits >> 36, bound); }
  bool blind() const { return (bits >> 50 & 15) == 0; }
  std::uint64_t exponential() const { return bits >> 54; }

 private:
  static std::uint32_t below(std::uint64_t bits, std::uint32_t bound) {
    return static_cast<std::uint32_t>(((bits & 0x3FFFF) * bound) >> 18);
  }
};

struct Search {
  const ItemLoads& loads;
  Bins& bins;
  const BinObjective& objective;
  Neighbours neighbours;
  Random random;
  std::vector<float> energy;  ///< (bins) sum over cells of load^16
};

[[gnu::always_inline]] inline void to_power_16(Vector& x) {
  x *= x;
  x *= x;
  x *= x;
  x *= x;
}

RELIBRA_ANY_WIDTH float energy_of(const Lanes* load, int vectors) {
  Vector sum{};
  for (int v = 0; v < vectors; ++v) {
    Vector x = vectors_of(load)[v];
    to_power_16(x);
    sum += x;
  }
  return sum_of(sum);
}

/// A swap to try, and the worsening it may bring, in temperatures.
struct Candidate {
  std::int32_t a, b;
  float allowance;
};

/// An item to swap `item` with: mostly one much like it, now and then any. May be in its own bin.
[[gnu::always_inline]] inline std::int32_t partner_of(const Search& s, const Draw& draw, std::int32_t item) {
  const auto slots = static_cast<std::uint32_t>(s.bins.slots());
  if (draw.blind()) return static_cast<std::int32_t>(draw.partner(slots));
  const int items = s.loads.items();
  std::int32_t like = s.neighbours.of(item)[draw.partner(static_cast<std::uint32_t>(s.neighbours.near()))];
  if (like == items) like += static_cast<std::int32_t>(draw.dummy(slots - static_cast<std::uint32_t>(items)));
  return like;
}

/// `count` candidates whose items are in different bins now. Drawn ahead of their use, so that the processor
/// does not have to guess which draws are of use.
void draw_candidates(Search& s, std::span<Candidate> candidates) {
  static const Exponentials exponential;
  const auto items = static_cast<std::uint32_t>(s.loads.items());
  Random random = s.random;
  for (std::size_t n = 0; n < candidates.size();) {
    const Draw draw{random.next()};
    const auto a = static_cast<std::int32_t>(draw.item(items));
    const std::int32_t b = partner_of(s, draw, a);
    candidates[n] = {a, b, exponential[draw.exponential()]};
    n += s.bins.bin_of(a) != s.bins.bin_of(b);
  }
  s.random = random;
}

/// Tries the swaps at one temperature; returns how many still were between different bins.
RELIBRA_ANY_WIDTH int try_candidates(Search& s, std::span<const Candidate> candidates, float temperature,
                                     float price) {
  const int vectors = s.loads.vectors();
  int tried = 0;
  for (const Candidate& swap : candidates) {
    const int p = s.bins.bin_of(swap.a), q = s.bins.bin_of(swap.b);
    if (p == q) continue;
    ++tried;
    const Vector *a = vectors_of(s.loads.row(swap.a)), *b = vectors_of(s.loads.row(swap.b));
    const Vector *load_p = vectors_of(s.bins.load(p)), *load_q = vectors_of(s.bins.load(q));
    Vector *trial_p = vectors_of(s.bins.trial(0)), *trial_q = vectors_of(s.bins.trial(1));
    Vector sum_p{}, sum_q{};
    for (int v = 0; v < vectors; ++v) {
      const Vector change = b[v] - a[v];
      Vector x = load_p[v] + change, y = load_q[v] - change;
      trial_p[v] = x;
      trial_q[v] = y;
      to_power_16(x);
      to_power_16(y);
      sum_p += x;
      sum_q += y;
    }
    float energy_p, energy_q;
    sums_of(sum_p, sum_q, energy_p, energy_q);
    float &was_p = s.energy[static_cast<std::size_t>(p)], &was_q = s.energy[static_cast<std::size_t>(q)];
    float worse = (energy_p + energy_q) - (was_p + was_q);
    if (price > 0) worse += price * static_cast<float>(newly_moved(s.objective, swap.a, p, swap.b, q));
    if (worse > temperature * swap.allowance) continue;
    s.bins.swap_to_trial(swap.a, swap.b);
    was_p = energy_p;
    was_q = energy_q;
  }
  return tried;
}

/// Largest load of a cell over all bins but two, for all cells.
void largest_of_others(const Bins& bins, int vectors, int p, int q, std::vector<Lanes>& largest) {
  std::fill(largest.begin(), largest.end(), Lanes{});
  for (int b = 0; b < bins.bins(); ++b) {
    if (b == p || b == q) continue;
    for (int v = 0; v < vectors; ++v)
      for (int k = 0; k < Lanes::kCount; ++k)
        largest[static_cast<std::size_t>(v)].value[k] =
            std::max(largest[static_cast<std::size_t>(v)].value[k], bins.load(b)[v].value[k]);
  }
}

/// Sum over cells of the largest of the others, and of two bins' loads after items a and b change places; the
/// two loads go to the trial rows.
RELIBRA_ANY_WIDTH float try_swap(const Lanes* others, const Lanes* row_a, const Lanes* row_b,
                                 const Lanes* load_p, const Lanes* load_q, int vectors, Lanes* trial_p,
                                 Lanes* trial_q) {
  Vector sum{};
  for (int v = 0; v < vectors; ++v) {
    const Vector change = vectors_of(row_b)[v] - vectors_of(row_a)[v];
    const Vector x = vectors_of(load_p)[v] + change, y = vectors_of(load_q)[v] - change;
    vectors_of(trial_p)[v] = x;
    vectors_of(trial_q)[v] = y;
    Vector top = vectors_of(others)[v];
    raise_to(top, x);
    raise_to(top, y);
    sum += top;
  }
  return sum_of(sum);
}

/// Makes every swap between two bins that lowers the objective; true if there was one.
bool descend_pair(const ItemLoads& loads, Bins& bins, const BinObjective& objective, int p, int q,
                  const Lanes* others) {
  const auto attempt = [&](std::int32_t a, std::int32_t b) {
    return try_swap(others, loads.row(a), loads.row(b), bins.load(p), bins.load(q), loads.vectors(),
                    bins.trial(0), bins.trial(1));
  };
  float current = attempt(loads.items(), loads.items());  // no change: the objective as it is
  bool any = false;
  const auto slots = static_cast<std::uint32_t>(bins.capacity()),
             first_p = static_cast<std::uint32_t>(p) * slots, first_q = static_cast<std::uint32_t>(q) * slots;
  for (std::uint32_t i = first_p; i < first_p + slots; ++i)
    for (std::uint32_t j = first_q; j < first_q + slots; ++j) {
      const std::int32_t a = bins.item_in(i), b = bins.item_in(j);
      const float after = attempt(a, b);
      if (static_cast<double>(current) - after <= objective.price * newly_moved(objective, a, p, b, q))
        continue;
      bins.swap_to_trial(a, b);
      current = after;
      any = true;
    }
  return any;
}

void anneal(const ItemLoads& loads, Bins& bins, const BinObjective& objective, std::int64_t moves,
            std::uint64_t seed) {
  constexpr int kNear = 10;  // items alike
  if (moves <= 0) return;
  Search search{loads,        bins, objective, Neighbours(loads, kNear, bins.slots() > loads.items()),
                Random(seed), {}};
  for (int b = 0; b < bins.bins(); ++b) search.energy.push_back(energy_of(bins.load(b), loads.vectors()));
  // A swap changes two loads near 1 by d, so load^16 by about 240 d^2 in all: half of that is a start hot
  // enough. A search that pays for moves starts from a good placement and must not melt it; there, a step of
  // the largest load is worth about 24 of load^16.
  const bool priced = objective.price > 0;
  const Schedule schedule{.start = (priced ? 20 : 120) * search.neighbours.mean_square_distance(),
                          .halvings = priced ? 4.0 : 7.0};
  const auto price = static_cast<float>(24 * objective.price);
  std::array<Candidate, 64> batch;  // at one temperature
  for (std::int64_t done = 0; done < moves;) {
    const auto candidates = std::span(batch).first(
        static_cast<std::size_t>(std::min(moves - done, static_cast<std::int64_t>(batch.size()))));
    draw_candidates(search, candidates);
    done += try_candidates(search, candidates, schedule.at(done, moves), price);
  }
}

void descend(const ItemLoads& loads, Bins& bins, const BinObjective& objective) {
  std::vector<Lanes> others(static_cast<std::size_t>(loads.vectors()));
  for (bool any = true; any;) {
    any = false;
    for (int p = 0; p < bins.bins(); ++p)
      for (int q = p + 1; q < bins.bins(); ++q) {
        largest_of_others(bins, loads.vectors(), p, q, others);
        any |= descend_pair(loads, bins, objective, p, q, others.data());
      }
  }
}

}  // namespace

double evaluate(const ItemLoads& loads, const Bins& bins, const BinObjective& objective) {
  std::vector<Lanes> largest(static_cast<std::size_t>(loads.vectors()));
  largest_of_others(bins, loads.vectors(), -1, -1, largest);
  double sum = 0;
  for (const Lanes& lanes : largest)
    for (float x : lanes.value) sum += static_cast<double>(x);
  const auto bin_of = bins.bin_of_item();
  for (std::size_t i = 0; i < objective.before.size(); ++i)
    if (objective.before[i] >= 0 && objective.before[i] != bin_of[i]) sum += objective.price;
  return sum;
}

std::vector<std::int32_t> search_bins(const ItemLoads& loads, int bins, int capacity,
                                      const BinObjective& objective, std::span<const std::int32_t> start,
                                      std::int64_t moves, std::uint64_t seed) {
  if (bins < 2 || loads.items() < 2 || loads.cells() == 0) return {start.begin(), start.end()};
  Bins state(loads, bins, capacity);
  state.assign(loads, start);
  anneal(loads, state, objective, moves, seed);
  descend(loads, state, objective);
  return state.bin_of_item();
}

}  // namespace relibra
