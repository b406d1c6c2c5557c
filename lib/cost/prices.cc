#include "lib/cost/prices.h"

#include <algorithm>
#include <cmath>

namespace relibra {

Prices prices_of(const Cluster& cluster, const LayerModel& model, const StepTimeOptions& options,
                 const Topology& topology, int top_k) {
  const double assignment =
      3 * model.expert_flops() * options.token_factor / (cluster.flops * cluster.gemm_share);
  const double network = cluster.network * cluster.network_share;
  const double between_homes =
      topology.domains_per_group() > 1 ? network : cluster.nvlink * cluster.nvlink_share;
  const double attention = 3 * (model.attention_flops + model.shared_experts * model.expert_flops()) *
                           options.token_factor / (cluster.flops * cluster.attention_share);
  const double alone = std::pow(1 - 1.0 / topology.domains_per_group(), top_k - 1);
  const int pushed = model.weight_bytes + std::max(model.weight_bytes, model.gradient_bytes);
  return {.move = model.parameters() * model.moved_bytes / between_homes / assignment,
          .push = model.parameters() * pushed / network / assignment,
          .far = static_cast<double>(model.hidden) * options.token_factor *
                 (model.dispatch_bytes + 3 * model.combine_bytes) / network / assignment * alone,
          .shadow = options.overlap * attention / (top_k * assignment)};
}

}  // namespace relibra
