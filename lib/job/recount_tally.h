#pragma once
// The inner loop of the recount: rows of one layer, counted by expert, with the nodes each row touches.
//
// Nodes are counted in byte lanes: a table gives per expert one 64-bit word with a 1 in the byte of its node.
// OR over a row's experts leaves a 1 for each distinct node, and words of up to 255 rows add up without
// carries. One pass covers 8 nodes with one word, or 64 with eight; `before` and `after` lie side by side.
#include <algorithm>
#include <cstdint>
#include <vector>

namespace relibra {

/// Where the nodes of a group's experts are, ready for tally(). Nodes are numbered inside the group.
class LaneTable {
 public:
  LaneTable() = default;
  /// `before`, `after`: (E) node of each expert's rank, 0..nodes-1.
  LaneTable(int nodes, const std::vector<std::int32_t>& before, const std::vector<std::int32_t>& after);

  int words() const { return words_; }
  int passes() const { return passes_; }
  int lanes() const { return passes_ * words_ * 8; }  ///< counters of one side, at least the nodes
  /// (E+1, 2, words) of one pass; the last row is zero.
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
/// per id, where `counts` is not null, and to `before[node]` and `after[node]` 1 per row that touches the
/// node, the row's own among them. kWords 0 counts ids only; kTopK 0 takes `top_k`.
template <int kTopK, int kWords, class T>
void tally_pass(const T* ids, std::int64_t rows, std::int64_t stride, int top_k, std::uint32_t experts,
                const std::uint64_t* table, std::uint32_t* counts, std::uint32_t* before,
                std::uint32_t* after) {
  const int k = kTopK ? kTopK : top_k;
  constexpr int kSides = 2 * kWords, kSize = kSides ? kSides : 1;
  std::uint64_t sums[kSize] = {};
  for (std::int64_t row = 0; row < rows; ++row, ids += stride) {
    std::uint64_t touched[kSize] = {};
    for (int j = 0; j < k; ++j) {
      const std::uint32_t e = expert_index(ids[j], experts);
      if (counts) ++counts[e];
      for (int w = 0; w < kSides; ++w)
        touched[w] |= table[e * static_cast<std::uint32_t>(kSides) + static_cast<std::uint32_t>(w)];
    }
    for (int w = 0; w < kSides; ++w) sums[w] += touched[w];
  }
  for (int lane = 0; lane < 8 * kWords; ++lane) {
    before[lane] += sums[lane / 8] >> (lane % 8 * 8) & 255;
    after[lane] += sums[kWords + lane / 8] >> (lane % 8 * 8) & 255;
  }
}

/// All passes. `before`, `after`: (lanes). A table without words only counts.
template <class T>
void tally(const T* ids, std::int64_t rows, std::int64_t stride, int top_k, std::uint32_t experts,
           const LaneTable& table, std::uint32_t* counts, std::uint32_t* before, std::uint32_t* after) {
  const auto with_top_k = [&]<int kTopK>() {
    if (table.words() == 0)
      return tally_pass<kTopK, 0>(ids, rows, stride, top_k, experts, nullptr, counts, before, after);
    if (table.words() == 1)
      return tally_pass<kTopK, 1>(ids, rows, stride, top_k, experts, table.pass(0), counts, before, after);
    for (int p = 0; p < table.passes(); ++p)
      tally_pass<kTopK, 8>(ids, rows, stride, top_k, experts, table.pass(p), p == 0 ? counts : nullptr,
                           before + 64 * p, after + 64 * p);
  };
  if (top_k == 8) return with_top_k.template operator()<8>();
  if (top_k == 6) return with_top_k.template operator()<6>();
  with_top_k.template operator()<0>();
}

}  // namespace relibra
