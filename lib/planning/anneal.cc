#include "lib/planning/anneal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "lib/base/random.h"

// One version a vector width, chosen at load time. All do the same operations on the same 16 lanes in the
// same order (no fused multiply-add), so all decide alike.
#define RELIBRA_ANY_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))

namespace relibra {
namespace {

using Vector = float __attribute__((vector_size(64), may_alias));

const Vector* vectors_of(const Lanes* lanes) {
  return reinterpret_cast<const Vector*>(lanes);
}
Vector* vectors_of(Lanes* lanes) {
  return reinterpret_cast<Vector*>(lanes);
}

[[gnu::always_inline]] inline void to_power_16(Vector& x) {
  x *= x;
  x *= x;
  x *= x;
  x *= x;
}

/// Sum of the lanes, always by halves.
[[gnu::always_inline]] inline float sum_of(const Vector& x) {
  float half[8];
  for (int k = 0; k < 8; ++k) half[k] = x[k] + x[k + 8];
  return ((half[0] + half[4]) + (half[2] + half[6])) + ((half[1] + half[5]) + (half[3] + half[7]));
}

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
  float start, halvings;
  float at(std::int64_t move, std::int64_t moves) const {
    const double e = static_cast<double>(halvings) * static_cast<double>(move) / static_cast<double>(moves);
    const int whole = static_cast<int>(e);
    return static_cast<float>(std::ldexp(static_cast<double>(start) * (1 - (e - whole) / 2), -whole));
  }
};

struct Search {
  const ItemLoads& loads;
  Bins& bins;
  const BinObjective& objective;
  std::vector<float> energy = {};  ///< (bins) sum over cells of load^16

  int before(int item) const {
    return item == loads.dummy() || objective.before.empty()
               ? -1
               : objective.before[static_cast<std::size_t>(item)];
  }
  /// Change in the number of priced items when `a` leaves bin p for q and `b` comes the other way.
  int newly_moved(int a, int p, int b, int q) const {
    const int home_a = before(a), home_b = before(b);
    return (home_a == p) - (home_a == q) + (home_b == q) - (home_b == p);
  }
};

RELIBRA_ANY_WIDTH void sum_energy(Search& s, int bin) {
  const Vector* load = vectors_of(s.bins.load(bin));
  Vector sum{};
  for (int v = 0; v < s.loads.vectors(); ++v) {
    Vector x = load[v];
    to_power_16(x);
    sum += x;
  }
  s.energy[static_cast<std::size_t>(bin)] = sum_of(sum);
}

void swap_slots(Search& s, int slot_a, int slot_b) {
  auto& item = s.bins.slot_item();
  const int p = slot_a / s.bins.capacity(), q = slot_b / s.bins.capacity();
  const Vector* a = vectors_of(s.loads.row(item[static_cast<std::size_t>(slot_a)]));
  const Vector* b = vectors_of(s.loads.row(item[static_cast<std::size_t>(slot_b)]));
  Vector *load_p = vectors_of(s.bins.load(p)), *load_q = vectors_of(s.bins.load(q));
  for (int v = 0; v < s.loads.vectors(); ++v) {
    const Vector change = b[v] - a[v];
    load_p[v] += change;
    load_q[v] -= change;
  }
  std::swap(item[static_cast<std::size_t>(slot_a)], item[static_cast<std::size_t>(slot_b)]);
}

/// Tries `count` swaps at one temperature.
RELIBRA_ANY_WIDTH void anneal_run(Search& s, Random& random, const Exponentials& exponential, int count,
                                  float temperature, float price) {
  const auto slots = static_cast<std::uint32_t>(s.bins.slots()),
             capacity = static_cast<std::uint32_t>(s.bins.capacity());
  const int vectors = s.loads.vectors();
  const bool priced = price > 0;
  for (int n = 0; n < count; ++n) {
    const std::uint64_t bits = random.next();
    // Two slots of different bins: the second one counts on from the first one's bin.
    const auto slot_a = static_cast<std::uint32_t>(((bits & 0xFFFFFFu) * slots) >> 24);
    const std::uint32_t p = slot_a / capacity;
    auto slot_b = static_cast<std::uint32_t>((((bits >> 24) & 0xFFFFFFu) * (slots - capacity)) >> 24);
    if (slot_b >= p * capacity) slot_b += capacity;
    const std::uint32_t q = slot_b / capacity;
    const int item_a = s.bins.slot_item()[slot_a], item_b = s.bins.slot_item()[slot_b];
    const Vector *a = vectors_of(s.loads.row(item_a)), *b = vectors_of(s.loads.row(item_b));
    const Vector *load_p = vectors_of(s.bins.load(static_cast<int>(p))),
                 *load_q = vectors_of(s.bins.load(static_cast<int>(q)));
    Vector sum{};
    for (int v = 0; v < vectors; ++v) {
      const Vector change = b[v] - a[v];
      Vector x = load_p[v] + change, y = load_q[v] - change;
      to_power_16(x);
      to_power_16(y);
      sum += x + y;
    }
    float worse = sum_of(sum) - (s.energy[p] + s.energy[q]);
    if (priced)
      worse +=
          price * static_cast<float>(s.newly_moved(item_a, static_cast<int>(p), item_b, static_cast<int>(q)));
    if (worse > temperature * exponential[bits >> 48]) continue;
    swap_slots(s, static_cast<int>(slot_a), static_cast<int>(slot_b));
    sum_energy(s, static_cast<int>(p));
    sum_energy(s, static_cast<int>(q));
  }
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

[[gnu::always_inline]] inline void raise_to(Vector& x, const Vector& y) {
  x = x > y ? x : y;
}

/// Tries every swap between two bins; true if one was made.
RELIBRA_ANY_WIDTH bool descend_pair(Search& s, int p, int q, const std::vector<Lanes>& others) {
  const int vectors = s.loads.vectors(), capacity = s.bins.capacity();
  const Vector *rest = vectors_of(others.data()), *load_p = vectors_of(s.bins.load(p)),
               *load_q = vectors_of(s.bins.load(q));
  const auto now = [&] {
    Vector sum{};
    for (int v = 0; v < vectors; ++v) {
      Vector top = rest[v];
      raise_to(top, load_p[v]);
      raise_to(top, load_q[v]);
      sum += top;
    }
    return sum_of(sum);
  };
  float current = now();
  bool any = false;
  for (int i = p * capacity; i < (p + 1) * capacity; ++i)
    for (int j = q * capacity; j < (q + 1) * capacity; ++j) {
      const int item_a = s.bins.slot_item()[static_cast<std::size_t>(i)],
                item_b = s.bins.slot_item()[static_cast<std::size_t>(j)];
      const Vector *a = vectors_of(s.loads.row(item_a)), *b = vectors_of(s.loads.row(item_b));
      Vector sum{};
      for (int v = 0; v < vectors; ++v) {
        const Vector change = b[v] - a[v];
        const Vector x = load_p[v] + change, y = load_q[v] - change;
        Vector top = rest[v];
        raise_to(top, x);
        raise_to(top, y);
        sum += top;
      }
      const float after = sum_of(sum);
      const double gain =
          static_cast<double>(current) - after - s.objective.price * s.newly_moved(item_a, p, item_b, q);
      if (gain <= 0) continue;
      swap_slots(s, i, j);
      current = after;
      any = true;
    }
  return any;
}

}  // namespace

double evaluate(const ItemLoads& loads, const Bins& bins, const BinObjective& objective) {
  std::vector<Lanes> largest(static_cast<std::size_t>(loads.vectors()));
  largest_of_others(bins, loads.vectors(), -1, -1, largest);
  double sum = 0;
  for (const Lanes& lanes : largest)
    for (float x : lanes.value) sum += x;
  const auto bin_of = bins.bin_of_item();
  for (std::size_t i = 0; i < objective.before.size(); ++i)
    if (objective.before[i] >= 0 && objective.before[i] != bin_of[i]) sum += objective.price;
  return sum;
}

void anneal(const ItemLoads& loads, Bins& bins, const BinObjective& objective, std::int64_t moves,
            std::uint64_t seed) {
  if (bins.bins() < 2 || loads.cells() == 0 || moves <= 0) return;
  static const Exponentials exponential;
  constexpr int kRun = 128;  // moves at one temperature
  const auto cells = static_cast<float>(loads.cells());
  const Schedule schedule{.start = 3e-2f * cells, .halvings = 7};
  Search search{loads, bins, objective, std::vector<float>(static_cast<std::size_t>(bins.bins()))};
  for (int b = 0; b < bins.bins(); ++b) sum_energy(search, b);
  Random random(seed);
  for (std::int64_t done = 0; done < moves; done += kRun)
    anneal_run(search, random, exponential, static_cast<int>(std::min<std::int64_t>(kRun, moves - done)),
               schedule.at(done, moves), static_cast<float>(16 * objective.price));
}

void descend(const ItemLoads& loads, Bins& bins, const BinObjective& objective) {
  if (bins.bins() < 2 || loads.cells() == 0) return;
  Search search{loads, bins, objective};
  std::vector<Lanes> others(static_cast<std::size_t>(loads.vectors()));
  for (bool any = true; any;) {
    any = false;
    for (int p = 0; p < bins.bins(); ++p)
      for (int q = p + 1; q < bins.bins(); ++q) {
        largest_of_others(bins, loads.vectors(), p, q, others);
        any |= descend_pair(search, p, q, others);
      }
  }
}

}  // namespace relibra
