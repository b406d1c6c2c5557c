#include "lib/job/recount_tally.h"

namespace relibra {

LaneTable::LaneTable(int nodes, const std::vector<std::int32_t>& before,
                     const std::vector<std::int32_t>& after)
    : words_(nodes <= 8 ? 1 : 8), passes_((nodes + 8 * words_ - 1) / (8 * words_)) {
  const auto words = static_cast<std::size_t>(words_), experts = before.size();
  pass_size_ = (experts + 1) * 2 * words;
  table_.resize(pass_size_ * static_cast<std::size_t>(passes_));
  const auto mark = [&](std::size_t e, std::size_t side, std::int32_t node) {
    const auto lanes = 8 * words, lane = static_cast<std::size_t>(node) % lanes;
    table_[static_cast<std::size_t>(node) / lanes * pass_size_ + (e * 2 + side) * words + lane / 8] =
        std::uint64_t{1} << (lane % 8 * 8);
  };
  for (std::size_t e = 0; e < experts; ++e) {
    mark(e, 0, before[e]);
    mark(e, 1, after[e]);
  }
}

}  // namespace relibra
