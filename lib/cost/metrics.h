#pragma once
// The measures of a plan, each defined once, here. docs/planning.md explains what they tell.
//
// A cell is one (micro-batch, layer). Groups do not wait for each other inside a layer, so statistics of
// loads run over (micro-batch, layer, EP group), those of copies and traffic over cells. Loads are
// assignments.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/ids.h"
#include "lib/model/plan.h"
#include "lib/model/topology.h"

namespace relibra {

/// Value at share `q` (0..1) of ascending, non-empty values, linear between neighbours: position q * (n - 1),
/// as numpy's default. Example: 1 2 4 at q = 0.75: position 1.5, so 3.
double quantile(std::span<const double> ascending, double q);

/// All zero where there are no values.
struct Statistics {
  std::int64_t count = 0;
  double mean = 0, p50 = 0, p99 = 0, max = 0;
};
/// The mean is added up in the order given, so the same order gives the same bits.
Statistics statistics(std::vector<double> values);

/// Loads of the P ranks of one EP group in one cell, against three bounds. All are 1.0 at best.
///
/// Example: P = 4, G = 2, loads 5 3 1 1: the mean is 2.5, the slowest rank has 5, the nodes hold 8 and 2.
/// skew = 5 / 2.5 = 2; node_skew = 8 / 5 = 1.6; over_mean_bound = 5 / ceil(2.5) = 5/3;
/// over_node_bound = 5 / ceil(8/2) = 1.25.
struct LoadMeasures {
  double skew = 0;             ///< slowest rank / mean over ranks
  double node_skew = 0;        ///< most loaded node / mean over nodes, of the part of the node in this group
  double over_mean_bound = 0;  ///< slowest rank / ceil(mean): what is left to gain if anything could move
  double over_node_bound = 0;  ///< slowest rank / ceil(most loaded node / its ranks): if copies stay in nodes
};
/// Nothing where the group has no load. `loads` (P).
std::optional<LoadMeasures> measure_loads(const Topology& topology, std::span<const std::int64_t> loads);

/// Copies of one cell and how many the busiest home has to send, all EP groups together.
///
/// Example: experts 0 and 1 at home on rank 0; copies of 0 on ranks 1 and 2, of 1 on rank 3: copies 3,
/// fan_out 3.
struct CopyMeasures {
  std::int64_t copies = 0;
  std::int64_t fan_out = 0;  ///< most copies of experts of one home rank
};
/// `home` (E) of the cell's layer. Ids must be in range.
CopyMeasures measure_copies(const Topology& topology, std::span<const EpRankId> home,
                            std::span<const Copy> copies);

/// Traffic between nodes of one cell. Dispatch sends a token once to each node that computes some of its
/// assignments, so what counts is distinct (token, node) pairs where the node is not the token's own.
///
/// Example: 2 nodes, 3 tokens on node 0, 1 on node 1. Two tokens of node 0 use experts on node 1, the token
/// of node 1 uses experts on both: sent 2 1, received 1 2: pairs 3, busiest node 2; over 4 rows on 2 nodes
/// busiest_per_token = 2 / (4/2) = 1.
struct CrossNodePairs {
  std::int64_t pairs = 0;    ///< in all
  std::int64_t busiest = 0;  ///< larger of sent and received at the busiest node
};
/// `sent`, `received` (nodes).
CrossNodePairs count_pairs(std::span<const std::int64_t> sent, std::span<const std::int64_t> received);
/// Pairs of the busiest node per token that a node holds on average: busiest / (rows / nodes).
double busiest_per_token(const CrossNodePairs& pairs, int nodes, std::int64_t rows);

/// One (cell, EP group) with load: before is the static placement (contiguous blocks), after the plan.
struct GroupSample {
  std::int64_t cell = 0;  ///< m*L + l
  std::int32_t group = 0;
  LoadMeasures before = {}, after = {};
  double over_replica_bound = 0;  ///< slowest rank / least reachable for these homes and slots; 0: unknown
};
/// One cell. Where rows were not recounted, `rows` is 0 and the pairs say nothing.
struct CellSample {
  std::int64_t cell = 0;
  std::int64_t rows = 0;  ///< tokens of the micro-batch, those without routes among them
  CopyMeasures copies = {};
  CrossNodePairs before = {}, after = {};
};
struct PlanSamples {
  std::vector<GroupSample> groups;
  std::vector<CellSample> cells;
};

/// Appends the samples of a range of cells that tables of rank loads (cells, W) give, before and after: loads
/// and copies, no traffic, no replica bound. Ids must be in range.
void sample_cells(const Plan& plan, const PlanCells& cells, std::span<const std::int64_t> rank_tokens_static,
                  std::span<const std::int64_t> rank_tokens, PlanSamples& out);

/// Statistics of one side.
struct SideSummary {
  Statistics skew = {}, node_skew = {}, over_mean_bound = {}, over_node_bound = {};
  std::int64_t cross_node_pairs = 0;  ///< sum over cells
  Statistics pairs_busiest = {};      ///< busiest_per_token over cells with rows
};
struct PlanSummary {
  SideSummary before = {}, after = {};
  Statistics over_replica_bound = {};
  Statistics copies = {}, fan_out = {};  ///< over cells
  std::int64_t copies_total = 0;
};
/// Over all cells, or those of one layer.
PlanSummary summarise(const PlanHeader& header, const PlanSamples& samples,
                      std::optional<LayerId> layer = {});

/// What moves with an expert when its home changes; zero where the model's shape is not known.
struct ExpertBytes {
  std::int64_t weights = 0;
  std::int64_t optimizer = 0;

  /// A SwiGLU expert, three (hidden, intermediate) matrices, in bfloat16, with a master copy and two moments
  /// in float32. Example: hidden 4096, intermediate 1536: 18 874 368 parameters, 37.7 MB and 226 MB.
  static ExpertBytes swiglu(std::int64_t hidden, std::int64_t intermediate) {
    const std::int64_t parameters = 3 * hidden * intermediate;
    return {.weights = 2 * parameters, .optimizer = 12 * parameters};
  }
};
struct MoveMeasures {
  std::int64_t experts = 0;       ///< (layer, expert) whose home differs from the one before
  std::int64_t weight_bytes = 0;  ///< in all D groups, each of which moves its own
  std::int64_t optimizer_bytes = 0;
};
/// In all layers, or one.
MoveMeasures measure_moves(const Plan& plan, const ExpertBytes& bytes, std::optional<LayerId> layer = {});

}  // namespace relibra
