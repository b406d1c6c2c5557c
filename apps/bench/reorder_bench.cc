// Stage 1 on one core: nanoseconds a search move, beside the bare arithmetic of a move, and what the search
// reaches.
//
//   reorder_bench [MOVES]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "apps/bench/timing.h"
#include "lib/base/random.h"
#include "lib/model/placement.h"
#include "lib/planning/lanes.h"
#include "lib/planning/reorder.h"

namespace {

using namespace relibra;
using bench::median_seconds;

constexpr int kRepeats = 5;

struct Case {
  const char* name;
  int experts, ep_size, micro_batches;
};

/// Log-normal popularity, varied by micro-batch.
LayerLoads make_loads(const Case& what) {
  LayerLoads loads{what.micro_batches, 1, what.experts, {}};
  Random random(1);
  std::vector<double> popular;
  for (int e = 0; e < what.experts; ++e) popular.push_back(0.8 * random.normal());
  for (int m = 0; m < what.micro_batches; ++m)
    for (double p : popular)
      loads.data.push_back(static_cast<std::int64_t>(1000 * std::exp(p + 0.3 * random.normal())));
  return loads;
}

/// The arithmetic of `moves` moves and nothing else: two loads after a swap, their 16th powers, two sums.
/// Rows are taken in turn from as many as the search touches.
RELIBRA_ANY_WIDTH float bare_moves(const std::vector<Lanes>& rows, int vectors, std::int64_t moves,
                                   Lanes* trial) {
  const std::size_t step = static_cast<std::size_t>(vectors), last = rows.size() - 4 * step;
  float total = 0;
  std::size_t at = 0;
  for (std::int64_t n = 0; n < moves; ++n) {
    const Vector* row = vectors_of(rows.data() + at);
    Vector sum_x{}, sum_y{};
    for (std::size_t v = 0; v < step; ++v) {
      const Vector change = row[v] - row[step + v];
      Vector x = row[2 * step + v] + change, y = row[3 * step + v] - change;
      vectors_of(trial)[v] = x;
      vectors_of(trial)[step + v] = y;
      for (int k = 0; k < 4; ++k) {
        x *= x;
        y *= y;
      }
      sum_x += x;
      sum_y += y;
    }
    float x, y;
    sums_of(sum_x, sum_y, x, y);
    total += x - y;
    at = at + step > last ? 0 : at + step;
  }
  return total;
}

double skew_of(const LayerLoads& loads, const Topology& topology, const std::vector<EpRankId>& home) {
  double sum = 0;
  for (int m = 0; m < loads.micro_batches; ++m) {
    std::vector<double> domain(static_cast<std::size_t>(topology.domains_per_group()));
    double total = 0, most = 0;
    for (ExpertId e : all<ExpertId>(loads.experts)) {
      const auto load = static_cast<double>(loads.of(MicroBatchId(m), GroupId(0))[e.index()]);
      total += load;
      auto& of_domain = domain[static_cast<std::size_t>(topology.domain_of(home[e.index()]))];
      most = std::max(most, of_domain += load);
    }
    sum += most * static_cast<double>(domain.size()) / total;
  }
  return sum / loads.micro_batches;
}

void run(const Case& what, std::int64_t moves) {
  const LayerLoads loads = make_loads(what);
  const Topology topology{what.ep_size, 1, 8};
  const auto placement = Placement::contiguous(1, what.experts, what.ep_size);
  const auto previous = placement.layer(LayerId(0));
  std::vector<EpRankId> home;
  const auto seconds_of = [&](std::int64_t count) {
    return median_seconds(kRepeats,
                          [&] { home = reorder_experts(loads, topology, previous, {.moves = count}).home; });
  };
  seconds_of(0);
  const double start = skew_of(loads, topology, home);
  const double twice = seconds_of(2 * moves), once = seconds_of(moves), skew = skew_of(loads, topology, home);
  const double search = twice - once;  // of `moves` moves, without what comes before and after

  const int vectors = (what.micro_batches + Lanes::kCount - 1) / Lanes::kCount;
  std::vector<Lanes> rows(static_cast<std::size_t>((what.experts + 4) * vectors)),
      trial(static_cast<std::size_t>(2 * vectors));
  for (auto& lanes : rows)
    for (float& x : lanes.value) x = 1;
  float sink = 0;
  const double bare =
      median_seconds(kRepeats, [&] { sink += bare_moves(rows, vectors, moves, trial.data()); });

  const double nano = 1e9 / static_cast<double>(moves);
  std::printf(
      "%-15s %6.2f ms a layer, %5.1f ns a move, %4.2f of bare arithmetic (%4.1f ns); node skew %.4f (%.4f "
      "without search)%s\n",
      what.name, once * 1e3, search * nano, search / bare, bare * nano, skew, start, sink == 1 ? " " : "");
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t moves = argc > 1 ? std::atoll(argv[1]) : 100'000;
  for (const Case& what : {Case{"E128 EP16 M32", 128, 16, 32}, Case{"E128 EP32 M32", 128, 32, 32},
                           Case{"E256 EP64 M32", 256, 64, 32}, Case{"E128 EP32 M128", 128, 32, 128}})
    run(what, moves);
}
