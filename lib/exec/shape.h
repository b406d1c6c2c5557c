#pragma once
// Sizes of the model that is executed.
#include <cstdint>

#include "kernels/backend.h"

namespace relibra::exec {

/// An expert is SwiGLU: y = W2 (silu(Wg x) * (Wu x)) with Wg, Wu (I, H) and W2 (H, I). Its parameters lie
/// together: Wg, then Wu, then W2, row-major: 3*H*I elements.
struct ModelShape {
  std::int64_t hidden = 0;        ///< H
  std::int64_t intermediate = 0;  ///< I, of one expert
  kernels::Type type = kernels::Type::float32;
  /// The stand-in for attention: a GEMM (tokens, H) x (H, columns) before each MoE layer, twice that
  /// backward; 0: none.
  std::int64_t attention_columns = 0;

  std::int64_t expert_elements() const { return 3 * hidden * intermediate; }
  std::int64_t down_offset() const { return 2 * hidden * intermediate; }  ///< of W2 in an expert
  std::int64_t element_bytes() const { return static_cast<std::int64_t>(kernels::size_of(type)); }
  std::int64_t expert_bytes() const { return expert_elements() * element_bytes(); }

  /// Floating-point operations of one assignment: 6*H*I forward (three products of 2*H*I), twice that
  /// backward.
  double forward_flops() const {
    return 6.0 * static_cast<double>(hidden) * static_cast<double>(intermediate);
  }
  double backward_flops() const { return 2 * forward_flops(); }
};

}  // namespace relibra::exec
