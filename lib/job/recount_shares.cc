#include "lib/job/recount_shares.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "lib/base/share.h"

namespace relibra {

std::vector<MicroBatchShare> share_bins(const Plan& plan, const Sequences& sequences, int rank, int size) {
  const auto key = [&](std::int32_t s) {
    const auto i = static_cast<std::size_t>(s);
    return std::tuple(plan.micro_batch[i], plan.source_rank[i], s);
  };
  std::vector<std::int32_t> order(static_cast<std::size_t>(sequences.size()));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return key(a) < key(b); });

  const int micro_batches = plan.header.num_micro_batches;
  std::vector<MicroBatchShare> shares(static_cast<std::size_t>(micro_batches));
  for (MicroBatchId m : all<MicroBatchId>(micro_batches)) {
    const int owner = owner_of(m.value(), micro_batches, size);  // stands where there are no sequences
    shares[m.index()] = {
        .micro_batch = m, .sources = {}, .sequences = {}, .bin = {}, .first = owner, .last = owner};
  }
  const std::int64_t total = std::max<std::int64_t>(1, sequences.total_rows());
  std::int64_t rows_before = 0;
  for (auto at = order.begin(); at != order.end();) {
    const auto [m, source, first_sequence] = key(*at);
    const int process = static_cast<int>(std::min<std::int64_t>(size - 1, rows_before * size / total));
    MicroBatchShare& share = shares[static_cast<std::size_t>(m)];
    if (at == order.begin() || std::get<0>(key(*std::prev(at))) != m) share.first = process;
    share.last = process;
    if (process == rank) share.sources.emplace_back(source);
    for (; at != order.end() &&
           std::tuple(m, source) == std::tuple(std::get<0>(key(*at)), std::get<1>(key(*at)));
         ++at) {
      rows_before += sequences.rows(*at);
      if (process == rank) share.sequences.push_back(*at);
    }
  }
  std::erase_if(shares, [&](const MicroBatchShare& s) { return rank < s.first || rank > s.last; });
  for (MicroBatchShare& share : shares) {
    std::sort(share.sequences.begin(), share.sequences.end());
    for (std::int32_t s : share.sequences) {
      const RankId source(plan.source_rank[static_cast<std::size_t>(s)]);
      share.bin.push_back(static_cast<std::int32_t>(
          std::lower_bound(share.sources.begin(), share.sources.end(), source) - share.sources.begin()));
    }
  }
  return shares;
}

}  // namespace relibra
