#pragma once
// Bodies of SwiGLU forward and backward: one element; and of the index arithmetic of its rows.
#include "kernels/backend.h"
#include "kernels/bodies/host_device.h"

namespace relibra::kernels {

/// exp(x) for any float, within 2 units in the last place, without branches, so that host compilers can run
/// several at once: x = n ln 2 + r, |r| <= ln(2) / 2, and the Taylor polynomial of degree 6 for exp(r).
RELIBRA_HOST_DEVICE float exp_of(float x) {
  x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
  // Adding 1.5 * 2^23 rounds to a whole number in the low mantissa bits.
  const float shifted = x * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts
  float p = 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const std::uint32_t power = (float_to_bits(shifted) + 127u) << 23;
  return p * bits_to_float(power);
}

RELIBRA_HOST_DEVICE float sigmoid(float x) {
  return 1.0f / (1.0f + exp_of(-x));
}

RELIBRA_HOST_DEVICE float swiglu(float gate, float up) {
  return gate * sigmoid(gate) * up;
}

struct SwigluGradient {
  float gate, up, weighted_hidden, product;  ///< product: this column's part of grad_weight
};

/// `d` is the gradient of hidden before the gate weight `w`; see SwigluBackward.
RELIBRA_HOST_DEVICE SwigluGradient swiglu_gradient(float gate, float up, float d, float w) {
  const float s = sigmoid(gate), silu = gate * s, hidden = silu * up, wd = w * d;
  return {wd * up * (s + silu * (1.0f - s)), wd * silu, w * hidden, d * hidden};
}

template <class T>
RELIBRA_HOST_DEVICE void swiglu_forward_element(const SwigluForward& args, std::int64_t row,
                                                std::int64_t column) {
  const T* gate_up = static_cast<const T*>(args.gate_up) + row * 2 * args.width + column;
  const float hidden = swiglu(to_float(gate_up[0]), to_float(gate_up[args.width]));
  static_cast<T*>(args.hidden)[row * args.width + column] = from_float<T>(hidden);
}

/// Writes the three outputs of an element; returns its part of grad_weight[row], which the backend sums over
/// the columns.
template <class T>
RELIBRA_HOST_DEVICE float swiglu_backward_element(const SwigluBackward& args, std::int64_t row,
                                                  std::int64_t column) {
  const std::int64_t wide = row * 2 * args.width + column, narrow = row * args.width + column;
  const T* gate_up = static_cast<const T*>(args.gate_up);
  const SwigluGradient gradient =
      swiglu_gradient(to_float(gate_up[wide]), to_float(gate_up[wide + args.width]),
                      to_float(static_cast<const T*>(args.grad_hidden)[narrow]), args.weight[row]);
  static_cast<T*>(args.grad_gate_up)[wide] = from_float<T>(gradient.gate);
  static_cast<T*>(args.grad_gate_up)[wide + args.width] = from_float<T>(gradient.up);
  static_cast<T*>(args.weighted_hidden)[narrow] = from_float<T>(gradient.weighted_hidden);
  return gradient.product;
}

}  // namespace relibra::kernels
