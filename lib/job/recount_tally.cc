#include "lib/job/recount_tally.h"

namespace relibra {

LaneTable::LaneTable(int nodes, const std::vector<std::int32_t>& before,
                     const std::vector<std::int32_t>& after)
    : words_(nodes <= 4   ? 1
             : nodes <= 8 ? 2
                          : 8),
      passes_((2 * nodes + 8 * words_ - 1) / (8 * words_)) {
  const auto words = static_cast<std::size_t>(words_), experts = before.size();
  pass_size_ = (experts + 1) * words;
  table_.resize(pass_size_ * static_cast<std::size_t>(passes_));
  const auto mark = [&](std::size_t e, std::int32_t lane_of_all) {
    const auto lanes = 8 * words, pass = static_cast<std::size_t>(lane_of_all) / lanes,
               lane = static_cast<std::size_t>(lane_of_all) % lanes;
    table_[pass * pass_size_ + e * words + lane / 8] |= std::uint64_t{1} << (lane % 8 * 8);
  };
  for (std::size_t e = 0; e < experts; ++e) {
    mark(e, before[e]);
    mark(e, nodes + after[e]);
  }
}

}  // namespace relibra
