// Making synthetic routing on one core: rows and ids a second, beside memcpy of as many bytes.
//
//   OMP_NUM_THREADS=1 workload_bench
#include <cstdio>
#include <cstring>
#include <vector>

#include "apps/bench/timing.h"
#include "lib/workload/workload.h"

namespace {

using namespace relibra;

constexpr int kRepeats = 3;

void run(const char* preset, double scale) {
  auto options = workload_options(model_preset(preset));
  options.scale = scale;
  const auto source = make_workload(options);
  const auto& sequences = source->dump().sequences;
  Range rows;  // whole sequences, about 32 million ids
  while (rows.last * options.layers * options.top_k < 1 << 25 && rows.last < sequences.total_rows())
    rows.last = *std::upper_bound(sequences.row_offset.begin(), sequences.row_offset.end(), rows.last);
  const double seconds = bench::median_seconds(kRepeats, [&] {
    source->read(std::span(&rows, 1), std::size_t{8} << 20, false, [](const RoutingBlock&) {});
  });
  const double ids = static_cast<double>(rows.size() * options.layers * options.top_k);
  std::vector<char> from(static_cast<std::size_t>(ids), 1), to(from.size());
  const double copy =
      bench::median_seconds(kRepeats, [&] { std::memcpy(to.data(), from.data(), to.size()); });
  std::printf("%-12s scale %.3f  %8.0f rows/s  %6.1f M ids/s  %.2f of memcpy\n", preset, scale,
              static_cast<double>(rows.size()) / seconds, ids / seconds / 1e6, copy / seconds);
}

}  // namespace

int main() {
  for (const char* preset : {"qwen3-235b", "glm4.5", "deepseek-v3", "mixtral"})
    for (const double scale : {1.0, 1.0 / 16}) run(preset, scale);
  return 0;
}
