#include "lib/count/digest.h"

#include <cinttypes>
#include <cstdio>

#include "lib/base/clones.h"
#include "lib/base/random.h"

namespace relibra {
namespace {

/// Counts of consecutive experts of one (sequence, layer); `first` is the index i of the first.
RELIBRA_CLONES std::uint64_t sum_of(const std::uint32_t* counts, std::uint64_t first, int experts) {
  std::uint64_t sum = 0;
  for (int e = 0; e < experts; ++e) {
    const std::uint64_t c = counts[e];
    const std::uint64_t term = mix64(mix64(first + static_cast<std::uint64_t>(e) + 1) ^ c);
    sum += c != 0 ? term : 0;
  }
  return sum;
}

}  // namespace

std::uint64_t digest_sum(const SequenceCounts& counts, int num_layers) {
  const Range layers = counts.layers();
  const std::int64_t cells = layers.size() * counts.sequences();
  std::uint64_t sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(static)
  for (std::int64_t cell = 0; cell < cells; ++cell) {
    const std::int64_t layer = layers.first + cell / counts.sequences(), s = cell % counts.sequences();
    const auto first = static_cast<std::uint64_t>((s * num_layers + layer) * counts.experts());
    sum += sum_of(counts.of(LayerId(layer), s).data(), first, counts.experts());
  }
  return sum;
}

std::string digest_text(std::uint64_t sum) {
  char text[24];
  std::snprintf(text, sizeof text, "c1-%016" PRIx64, sum);
  return text;
}

}  // namespace relibra
