#pragma once
// The schedule of a step for one rank: every count, list and order that the engine will follow, as plain
// data. Pure: built from a plan and routes, before anything is sent. The engine adds no decision of its own.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/exec/deal.h"
#include "lib/exec/pushes.h"
#include "lib/exec/routes.h"

namespace relibra::exec {

/// What a rank sends in a cell as the source of tokens. A token goes to a rank once, however many of its
/// experts are there.
///
/// Example: P = 2, K = 2, 2 tokens; token 0 has both experts on rank 1, token 1 one on each rank:
///   offset = 0 1 3, token = 1 | 0 1, route_offset = 0 1 3 4, route = 2 | 0 1, 3 (k = 0 goes to rank 0)
///   return_offset = 0 1 3, return_row = 1 | 0 2, gate_index = 1 2 | 0 3.
struct SendList {
  std::vector<std::int32_t> offset;        ///< (P+1) rows for each rank of the group, by EP rank
  std::vector<std::int32_t> token;         ///< (rows) the source's token in the micro-batch
  std::vector<std::int32_t> route_offset;  ///< (rows+1)
  std::vector<std::int32_t> route;         ///< (routes) token*K + k, in a row ascending
  // What comes back, in the order in which it was sent:
  std::vector<std::int32_t> return_offset;  ///< (tokens+1)
  std::vector<std::int32_t> return_row;     ///< (rows) rows of each token, by EP rank: the order of the sum
  std::vector<std::int32_t> gate_index;     ///< (tokens*K) place in `route`; routes() where none was recorded

  std::int32_t tokens() const { return static_cast<std::int32_t>(return_offset.size()) - 1; }
  std::int32_t rows() const { return static_cast<std::int32_t>(token.size()); }
  std::int32_t routes() const { return static_cast<std::int32_t>(route.size()); }
  std::int32_t routes_to(EpRankId p) const;
};

/// What a destination must know of the rows that one source sends it: setup carries it over once.
struct RowList {
  std::vector<std::int32_t> routes;  ///< (rows) assignments of each row, at least 1
  std::vector<std::int32_t> slot;    ///< (sum of routes) the destination's slot
  std::vector<float> weight;         ///< (sum of routes)
};

/// Rows of the assignments that one slot computes.
struct SlotRows {
  std::int32_t slot = 0;
  std::int32_t first = 0;
  std::int32_t rows = 0;  ///< at least 1
  bool operator==(const SlotRows&) const = default;
};

/// What a rank computes in a cell. Assignments are numbered by (slot, received row).
struct ReceiveList {
  std::vector<std::int32_t> offset;        ///< (P+1) rows from each source of the group
  std::vector<std::int32_t> route_offset;  ///< (P+1) assignments from each source
  std::vector<SlotRows> groups;            ///< by slot: the groups of the GEMMs
  std::vector<std::int32_t> row;           ///< (assignments) received row
  std::vector<float> weight;               ///< (assignments)
  std::vector<std::int32_t> sum_offset;    ///< (rows+1) assignments of each received row ...
  std::vector<std::int32_t> sum;           ///< ... in the sender's order: the order of the sum

  std::int32_t rows() const { return offset.empty() ? 0 : offset.back(); }
  std::int32_t assignments() const { return static_cast<std::int32_t>(row.size()); }
};

SendList build_send_list(const Dealt& dealt, int top_k, const Topology& topology, GroupId group);

/// The rows for EP rank `to`, as it needs to know them.
RowList row_list(const SendList& send, const Dealt& dealt, const CellRoutes& routes, EpRankId to);

/// `rows` by source, (P). Throws Fault::input where a slot is outside 0..slots-1.
ReceiveList build_receive_list(std::span<const RowList> rows, int slots);

struct CellSchedule {
  MicroBatchId micro_batch;
  LayerId layer;
  SendList send;
  ReceiveList receive;
  RankPushes pushes;
};

/// One passage of a cell. A step is a list of them: per micro-batch all layers forward, then all in reverse.
struct Visit {
  std::int32_t micro_batch = 0;  ///< position in the selection
  std::int32_t layer = 0;        ///< position in the selection
  bool backward = false;
  std::int32_t bank = 0;  ///< of the copies' weights, 0 or 1
  bool push_first =
      false;  ///< weights must be pushed for it; not where the visit before was of the same cell
};

/// Example: 1 micro-batch, 2 layers: forward 0 (bank 0), forward 1 (bank 1), backward 1 (bank 1, no push),
/// backward 0 (bank 0).
std::vector<Visit> build_visits(const Selection& selection);

struct RankSchedule {
  RankId rank;
  Topology topology;
  ReplicaDomain domain = ReplicaDomain::node;
  int top_k = 0, home_slots = 0, copy_slots = 0;
  Selection selection;
  std::vector<std::int32_t> tokens;  ///< by selected micro-batch: tokens this rank is the source of
  std::vector<CellSchedule> cells;   ///< by selected cell
  std::vector<Visit> visits;
  bool sum_homes = false;  ///< weight gradients are summed over the D homes after the last micro-batch

  GroupId group() const { return topology.group_of(rank); }
  const CellSchedule& cell(const Visit& v) const {
    return cells[selection.cell(static_cast<std::size_t>(v.micro_batch), static_cast<std::size_t>(v.layer))];
  }
};

}  // namespace relibra::exec
