#pragma once
// Weights of copies out, their gradients back, and the sum of gradients over the homes of an expert.
#include <optional>

#include "lib/exec/buffers.h"
#include "lib/exec/transport.h"

namespace relibra::exec {

class WeightFlow {
 public:
  WeightFlow(Transport& transport, const Stream& stream, const RankSchedule& schedule,
             const ModelShape& shape, RankBuffers& buffers);

  /// Begins the push of a visit's copies into its bank; nothing else may read that bank any more.
  Transport::Ticket push(const Visit& visit);

  /// After a backward visit's compute: begins the way of its copies' gradients to their homes.
  Transport::Ticket return_gradients(const Visit& visit);

  /// Completes the returns begun last, if any: adds what came, in the schedule's order, to the home
  /// gradients. After it the gradients of copies may be overwritten.
  void settle_returns();

  /// After the last visit: home gradients become their sum over the D homes, in the order own, then the
  /// others ascending, of the home that adds; each home adds one share of a layer and sends it to the others.
  void sum_homes();

 private:
  std::byte* weights_of(std::int32_t slot, std::int32_t layer, std::int32_t bank) const;
  float* home_gradient(std::int32_t layer, std::int64_t element) const;
  void accumulate(float* out, const float* in, std::int64_t count) const;

  Transport& transport_;
  const Stream& stream_;
  const RankSchedule& schedule_;
  const ModelShape& shape_;
  RankBuffers& buffers_;
  struct Returning {
    Transport::Ticket ticket;
    const CellSchedule* cell;
    std::int32_t layer;
  };
  std::optional<Returning> returning_;
};

}  // namespace relibra::exec
