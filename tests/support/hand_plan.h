#pragma once
// The plan worked by hand in docs/formats.md.
#include "tests/support/random_plan.h"

namespace relibra::testing {

/// Four ranks on two nodes, one expert each, top 2; one layer, one micro-batch. Rank 0 holds the rows
/// (0 1) (0 2) (0 1) (0 3), rank 2 the rows (0 2) (2 3), so the experts have 5 2 3 2 assignments. Expert 0
/// has a copy on rank 1, which computes the one token from rank 2.
struct HandPlan {
  HandPlan() {
    Plan& plan = memory.plan;
    plan.header.num_experts = 4;
    plan.header.num_micro_batches = 1;
    plan.header.top_k = 2;
    plan.header.topology = {.ep_size = 4, .gpus_per_node = 2};
    plan.header.slots_per_rank = plan.header.replica_slots = 1;
    plan.header.physical_slots = 2;
    plan.header.layers = {1};
    plan.placement = plan.previous = Placement::contiguous(1, 4, 4);
    plan.slot_expert = initial_slots(1, 4, 4);
    plan.micro_batch = {0, 0};
    plan.source_rank = {0, 2};
    PlanCells& cells = memory.cells;
    cells.cells = {0, 1};
    cells.copy_offset = {0, 1};
    cells.copies = {{ExpertId(0), RankId(1), 0}};
    cells.split_offset = {0, 2};
    cells.split = {{ExpertId(0), RankId(0), RankId(0), 4}, {ExpertId(0), RankId(2), RankId(1), 1}};
    cells.transfer = {4, 2, 1, 1, 0, 0, 0, 0, 0, 1, 2, 1, 0, 0, 0, 0};
    cells.rank_tokens = {4, 3, 3, 2};
    cells.rank_tokens_static = {5, 2, 3, 2};
  }

  MemorySource source = [] {
    RoutingDump dump;
    dump.header.num_experts = 4;
    dump.header.top_k = 2;
    dump.header.layers = {1};
    dump.sequences.row_offset = {0, 4, 6};
    return MemorySource::with_type(dump, IdType::u8, {0, 1, 0, 2, 0, 1, 0, 3, 0, 2, 2, 3});
  }();
  MemoryPlan memory;
};

}  // namespace relibra::testing
