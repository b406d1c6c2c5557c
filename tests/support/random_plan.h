#pragma once
// Small random dumps with random valid plans, and a slow recount of them, written from docs/formats.md alone.
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/random.h"
#include "lib/job/recount.h"
#include "lib/model/memory_source.h"

namespace relibra::testing {

struct RandomCase {
  std::uint64_t seed = 1;
  int experts = 8, top_k = 2, layers = 2, sequences = 12, longest = 9, micro_batches = 3;
  Topology topology{.ep_size = 4, .ep_groups = 1, .gpus_per_node = 2};
  int replica_slots = 2;
  ReplicaDomain domain = ReplicaDomain::node;
  double missing = 0.02;
  IdType type = IdType::i16;
};

/// A plan that lives in memory, all of it on every process.
struct MemoryPlan {
  Plan plan;
  PlanCells cells;
  std::vector<Move> moves;

  PlanView view() const;
};

/// What one cell's tokens do.
struct SlowCell {
  std::vector<std::int32_t> counts;                ///< (E, W)
  std::vector<std::int32_t> transfer;              ///< (W, P)
  std::vector<std::int64_t> rank_tokens[2];        ///< before and after, (W)
  std::vector<std::int64_t> sent[2], received[2];  ///< (nodes)
};

class RandomPlan {
 public:
  explicit RandomPlan(const RandomCase& random);

  MemorySource source() const;
  RoutingDump dump;
  std::vector<int> ids;  ///< (R, L, K)
  MemoryPlan plan;       ///< valid, its tables from slow_cell

  /// Deals every token of a cell, one by one.
  SlowCell slow_cell(MicroBatchId m, LayerId l) const;
  /// dump_digest by its definition.
  std::string slow_digest() const;

 private:
  void draw_routes();
  void draw_placement();
  void draw_cell(MicroBatchId m, LayerId l);
  std::vector<std::int32_t> count(MicroBatchId m, LayerId l) const;

  RandomCase random_;
  Random draw_;
};

}  // namespace relibra::testing
