#pragma once
// Values of an execution: inputs, output gradients, weights and optimizer moments drawn from (seed, what,
// where), so that any process has any of them without asking. All are uniform with mean 0; a standard
// deviation of 1 for rows, 1/sqrt(H) for Wg and Wu, 1/(depth*sqrt(I)) for W2. What a layer adds to a row
// grows with the square of the row, so without the depth activations would overflow after some 20 layers.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/ids.h"
#include "lib/exec/shape.h"

namespace relibra::exec {

class Generator {
 public:
  /// `depth`: layers that are executed one after another.
  Generator(std::uint64_t seed, const ModelShape& shape, std::size_t depth)
      : seed_(seed), shape_(shape), depth_(static_cast<double>(depth)) {}

  /// Each writes float32 values that the shape's element type holds exactly. `row` is that of the joined
  /// dump.
  void input_row(std::int64_t row, std::span<float> out) const;        ///< (H) into the first layer
  void gradient_row(std::int64_t row, std::span<float> out) const;     ///< (H) at the last layer's output
  void expert(LayerId layer, ExpertId e, std::span<float> out) const;  ///< (3*H*I) weights
  /// (3*H*I) first (`which` = 0) or second (1) moment; float32 whatever the shape's type.
  void moment(int which, LayerId layer, ExpertId e, std::span<float> out) const;

 private:
  std::uint64_t key(std::uint64_t what, std::int64_t a, std::int64_t b) const;

  std::uint64_t seed_;
  ModelShape shape_;
  double depth_;
};

/// float32 values as the element type's bytes, and back.
std::vector<std::byte> to_type(std::span<const float> values, kernels::Type type);
std::vector<float> from_type(std::span<const std::byte> bytes, kernels::Type type);

}  // namespace relibra::exec
