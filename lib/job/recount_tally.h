#pragma once
// The inner loop of the recount: rows of one layer, counted by expert, with the nodes each row touches.
//
// What a row can touch is counted in byte lanes: a table gives per expert words with a 1 in the byte of its
// node before and a 1 in that of its node after. OR over a row's experts leaves a 1 for each distinct node,
// and words of up to 255 rows add up without carries. So one 64-bit word an expert does for four nodes.
#include <algorithm>
#include <cstdint>
#include <vector>

namespace relibra {

/// Where the nodes of a group's experts are, ready for tally(). Nodes are numbered inside the group; lane n
/// is node n before, lane nodes + n is node n after.
class LaneTable {
 public:
  LaneTable() = default;
  /// `before`, `after`: (E) node of each expert's rank, 0..nodes-1.
  LaneTable(int nodes, const std::vector<std::int32_t>& before, const std::vector<std::int32_t>& after);

  int words() const { return words_; }  ///< of an expert and pass: 0 in an empty table, 1, 2 or 8
  int passes() const { return passes_; }
  int lanes() const { return passes_ * words_ * 8; }  ///< at least 2 * nodes
  /// (E+1, words) of one pass; the last row is zero.
  const std::uint64_t* pass(int p) const { return table_.data() + static_cast<std::size_t>(p) * pass_size_; }

 private:
  int words_ = 0, passes_ = 0;
  std::size_t pass_size_ = 0;
  std::vector<std::uint64_t> table_;
};

inline constexpr std::int64_t kTallyRows = 255;  ///< most rows of one call: a byte lane holds no more

/// Index of an id in tables of E+1 rows: itself, or E where it is no expert.
template <class T>
std::uint32_t expert_index(T id, std::uint32_t experts) {
  return std::min(static_cast<std::uint32_t>(static_cast<std::int32_t>(id)), experts);
}

/// One pass over `rows` <= kTallyRows rows of `top_k` ids, `stride` ids apart. Adds 1 to counts[expert] (E+1)
/// per id, if kCount, and to touched[lane] 1 per row that touches it. kTopK 0 takes `top_k`.
template <int kTopK, int kWords, bool kCount, class T>
void tally_pass(const T* __restrict ids, std::int64_t rows, std::int64_t stride, int top_k,
                std::uint32_t experts, const std::uint64_t* __restrict table,
                std::uint32_t* __restrict counts, std::uint32_t* __restrict touched) {
  const int k = kTopK ? kTopK : top_k;
  std::uint64_t sums[kWords ? kWords : 1] = {};
  for (std::int64_t row = 0; row < rows; ++row, ids += stride) {
    std::uint64_t lanes[kWords ? kWords : 1] = {};
    for (int j = 0; j < k; ++j) {
      const std::size_t e = expert_index(ids[j], experts);
      if constexpr (kCount) ++counts[e];
      for (std::size_t w = 0; w < kWords; ++w) lanes[w] |= table[e * kWords + w];
    }
    for (int w = 0; w < kWords; ++w) sums[w] += lanes[w];
  }
  for (int lane = 0; lane < 8 * kWords; ++lane) touched[lane] += sums[lane / 8] >> (lane % 8 * 8) & 255;
}

/// All passes. `touched`: (lanes). With an empty table it only counts.
template <class T>
void tally(const T* ids, std::int64_t rows, std::int64_t stride, int top_k, std::uint32_t experts,
           const LaneTable& table, std::uint32_t* counts, std::uint32_t* touched) {
  const auto with_top_k = [&]<int kTopK>() {
    const auto pass = [&]<int kWords, bool kCount>(int p) {
      tally_pass<kTopK, kWords, kCount>(ids, rows, stride, top_k, experts, table.pass(p), counts,
                                        touched + p * kWords * 8);
    };
    if (table.words() == 0) return pass.template operator()<0, true>(0);
    if (table.words() == 1) return pass.template operator()<1, true>(0);
    if (table.words() == 2) return pass.template operator()<2, true>(0);
    pass.template operator()<8, true>(0);
    for (int p = 1; p < table.passes(); ++p) pass.template operator()<8, false>(p);
  };
  if (top_k == 8) return with_top_k.template operator()<8>();
  if (top_k == 6) return with_top_k.template operator()<6>();
  with_top_k.template operator()<0>();
}

}  // namespace relibra
