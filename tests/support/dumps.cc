#include "tests/support/dumps.h"

#include "lib/base/random.h"

namespace relibra::test {

MemorySource random_dump(const DumpShape& shape) {
  Random random(shape.seed);
  RoutingDump dump;
  auto& h = dump.header;
  h.step = shape.step;
  h.num_experts = shape.experts;
  h.top_k = shape.top_k;
  for (int l = 0; l < shape.layers; ++l) h.layers.push_back(2 * l + 1);
  auto& q = dump.sequences;
  for (std::int64_t n : shape.rows) {
    const auto i = static_cast<std::int32_t>(q.size());
    q.row_offset.push_back(q.total_rows() + n);
    q.num_tokens.push_back(n + 1);
    if (!shape.columns) continue;
    q.row_start.push_back(i % 2);
    q.micro_batch.push_back(i / 2);
    q.source_rank.push_back(i % 4);
    q.prompt_tokens.push_back(10 * i);
    q.group.push_back(i / 3);
    q.domain.push_back(i % 2 == 0 ? "code" : "mathematik");
    q.num_tokens.back() += q.row_start.back();
  }
  std::vector<int> ids;
  std::vector<float> weights;
  for (std::int64_t cell = 0; cell < q.total_rows() * shape.layers; ++cell) {
    const bool hole = random.uniform() < shape.holes;
    // Distinct: a walk over the experts with a stride that is prime to their number.
    const auto first = random.below(static_cast<std::uint32_t>(shape.experts));
    for (int k = 0; k < shape.top_k; ++k) {
      ids.push_back(hole ? -1 : (static_cast<int>(first) + k) % shape.experts);
      if (shape.weights) weights.push_back(static_cast<float>(random.below(1024)) / 1024);
    }
  }
  return MemorySource::with_type(std::move(dump), shape.type, ids, std::move(weights));
}

AllRows read_rows(RoutingSource& source, const std::vector<Range>& ranges, std::size_t block_bytes,
                  bool with_weights) {
  AllRows all;
  const auto& h = source.dump().header;
  source.read(ranges, block_bytes, with_weights, [&](const RoutingBlock& block) {
    const auto values = block.rows * h.num_layers() * h.top_k;
    all.blocks.push_back({block.first_row, block.first_row + block.rows});
    block.with_ids([&](const auto* ids) { all.ids.insert(all.ids.end(), ids, ids + values); });
    if (block.weights != nullptr)
      all.weights.insert(all.weights.end(), block.weights, block.weights + values);
  });
  return all;
}

}  // namespace relibra::test
