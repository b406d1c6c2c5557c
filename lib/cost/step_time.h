#pragma once
// A model of a training step's time under a plan, each term a product that can be checked by hand.
// docs/compare.md derives the terms and works one cell through.
//
// Units: seconds, bytes, floating-point operations a second. Bandwidths are of one GPU in one direction.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/ids.h"
#include "lib/model/plan.h"
#include "lib/model/topology.h"

namespace relibra {

/// What a GPU and its links can do. A *_share is the part of the nominal figure before it that is reached.
struct Cluster {
  std::string name;
  double flops = 0;            ///< dense bfloat16, nominal
  double gemm_share = 0;       ///< reached by GEMMs of experts with many rows each
  double gemm_half_rows = 0;   ///< rows of an expert with which half of that is reached
  double attention_share = 0;  ///< reached by attention and shared experts
  double nvlink = 0;           ///< bytes a second to GPUs of the node
  double nvlink_share = 0;
  double network = 0;  ///< bytes a second to other nodes
  double network_share = 0;
  double latency = 0;  ///< seconds of an exchange beside its bytes

  bool operator==(const Cluster&) const = default;
};

/// hopper-ib400 and others; docs/compare.md says where the figures are from.
std::span<const Cluster> cluster_presets();
/// Throws Fault::usage that lists the names.
const Cluster& cluster_preset(std::string_view name);

/// One mixture-of-experts layer of a model, with the attention before it. Experts are SwiGLU: 3*H*I
/// parameters.
struct LayerModel {
  std::string name;
  std::int64_t hidden = 0;        ///< H
  std::int64_t intermediate = 0;  ///< I, of one expert
  double attention_flops = 0;     ///< forward, a token, of attention
  int shared_experts = 0;         ///< computed for every token on its own rank
  int dispatch_bytes = 2;         ///< an element of a token on its way to experts
  int combine_bytes = 2;          ///< an element of a result, and of gradients of both
  int weight_bytes = 2;           ///< a parameter of a copy
  int gradient_bytes = 4;         ///< a parameter's gradient that a copy returns
  int moved_bytes = 14;           ///< a parameter that changes its home: weight, master copy, two moments

  double parameters() const { return 3.0 * double(hidden) * double(intermediate); }
  double expert_flops() const { return 2 * parameters(); }  ///< forward, an assignment: 6*H*I

  bool operator==(const LayerModel&) const = default;
};

struct StepTimeOptions {
  double token_factor = 1;  ///< tokens that one of the dump stands for, where it is a sample
  double overlap = 1;       ///< share of attention's time beside which weights and gradients travel
};

/// Copies that the busiest rank sends or receives, whichever is more, by the link they take.
struct PushWork {
  std::int64_t in_node = 0, across_nodes = 0;
};

/// What one EP group does in one cell.
struct GroupWork {
  std::int64_t cell = 0;  ///< m*L + l
  std::int32_t group = 0;
  std::int64_t rows = 0;   ///< tokens of the micro-batch, of all groups
  std::int64_t pairs = 0;  ///< (token, node) pairs sent or received, whichever is more, by the busiest node
  PushWork push;
};

/// Everything of a plan that the model looks at, sorted by (cell, group).
struct StepWork {
  Topology topology;
  int layers = 0;
  int optimizer_steps = 1;
  bool resident_copies = false;  ///< the same in all micro-batches: pushed once an optimizer step
  PushWork moves;                ///< experts of all layers that the busiest rank sends or receives
  std::vector<GroupWork> groups;
  std::vector<std::int64_t> rank_rows;     ///< (groups, P) assignments that a rank computes
  std::vector<std::int32_t> rank_experts;  ///< (groups, P) experts among which they are spread

  std::span<const std::int64_t> rows_of(std::size_t i) const { return part(rank_rows, i); }
  std::span<const std::int32_t> experts_of(std::size_t i) const { return part(rank_experts, i); }

 private:
  template <class T>
  std::span<const T> part(const std::vector<T>& values, std::size_t i) const {
    const auto width = static_cast<std::size_t>(topology.ep_size);
    return std::span(values).subspan(i * width, width);
  }
};

/// Copies of one EP group in one cell by sender and receiver. `home` (E) of the cell's layer; copies of
/// other groups are passed over.
PushWork push_work(const Topology& topology, GroupId group, std::span<const EpRankId> home,
                   std::span<const Copy> copies);
/// Experts that change their home, all layers together.
PushWork move_work(const Topology& topology, std::span<const Move> moves);

/// Seconds, forward and backward.
struct CellTimes {
  double attention = 0;  ///< with shared experts; of a rank that holds the mean number of tokens
  double dispatch = 0;   ///< tokens to experts, and gradients of results on the same way
  double compute = 0;    ///< experts, the slowest rank
  double combine = 0;    ///< results back, and gradients of tokens
  double push = 0;       ///< weights and gradients of copies, as far as attention does not hide them

  double total() const { return attention + dispatch + compute + combine + push; }
  CellTimes& operator+=(const CellTimes& other);
};

/// With T the token factor, F the flops of an expert, B a bandwidth times its share:
///
///   compute   = 3 F max over ranks of (T rows + half_rows experts) / (flops gemm_share)
///   attention = 3 (attention_flops + shared_experts F) T rows / W / (flops attention_share)
///   exchange  = latency + T H bytes max(pairs / (ranks of the node B_network), most rows / B_nvlink)
///   dispatch  = exchange(dispatch_bytes) + exchange(combine_bytes), combine = 2 exchange(combine_bytes)
///   push      = what is over the attention beside it: weights forward; weights out and gradients in,
///               whichever takes longer, backward; each max(in_node / B_nvlink, across / B_network)
///
/// No exchange where P is 1. Example: tests/cost/step_time_test.cc has one cell with every number.
CellTimes cell_times(const Cluster& cluster, const LayerModel& model, const StepTimeOptions& options,
                     const StepWork& work, std::size_t group);

/// Seconds of the mean rank's experts in a cell, which `compute` would be if none waited.
double mean_compute(const Cluster& cluster, const LayerModel& model, const StepTimeOptions& options,
                    const StepWork& work, std::size_t group);

/// Groups wait for each other at the end of the step: `cells` sums over the cells of the slowest one.
struct StepTimes {
  CellTimes cells;
  double compute_mean = 0;  ///< of that group: compute without waiting
  double moves = 0;         ///< experts to their new homes, the busiest rank
  std::int32_t group = 0;
  std::size_t slowest = 0;  ///< index of its slowest cell in StepWork::groups

  double total() const { return cells.total() + moves; }
};
/// Added up in the order of `work`, so the same work gives the same bits.
StepTimes step_times(const Cluster& cluster, const LayerModel& model, const StepTimeOptions& options,
                     const StepWork& work);

/// The same tokens as in `work`, balanced: assignments floor or ceil over ranks and over all ceil(E/P)
/// homes, routes drawn evenly over experts, no copies, no moves. Of a token's K experts of E, with N nodes in
/// the group, the expected nodes beside its own are (N-1) (1 - C(E-E/N, K) / C(E, K)); a token with fewer
/// recorded routes counts as one with K.
StepWork balanced_work(const StepWork& work, int num_experts, int top_k);

/// Bytes of spare slots of a rank, the memory that copies take: `slots` of weights in two banks and of
/// gradients, shared by all layers; or of weights and gradients in every layer, where copies are resident.
std::int64_t slot_bytes(const LayerModel& model, int slots, int layers, bool resident);

}  // namespace relibra
