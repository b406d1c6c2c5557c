#include "lib/exec/generate.h"

#include <cmath>
#include <cstring>

#include "kernels/bodies/host_device.h"
#include "lib/base/random.h"

namespace relibra::exec {
namespace {

using kernels::Bf16;

enum What : std::uint64_t { kInput = 1, kGradient, kWeights, kFirstMoment, kSecondMoment };

/// Uniform in (-bound, bound): 24 bits of the mixed counter.
void draw(std::uint64_t key, std::int64_t first, float bound, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t bits = mix64(key + (static_cast<std::uint64_t>(first) + i) * 0x9E3779B97F4A7C15ull);
    out[i] = (static_cast<float>(bits >> 40) + 0.5f) * (0x1p-23f * bound) - bound;
  }
}

void round_to(kernels::Type type, std::span<float> values) {
  if (type == kernels::Type::bfloat16)
    for (float& value : values) value = kernels::to_float(kernels::from_float<Bf16>(value));
}

float bound_for(double deviation) {
  return static_cast<float>(deviation * std::sqrt(3.0));
}

}  // namespace

std::uint64_t Generator::key(std::uint64_t what, std::int64_t a, std::int64_t b) const {
  return mix64(mix64(mix64(seed_ + 1) ^ (what << 56) ^ static_cast<std::uint64_t>(a)) +
               static_cast<std::uint64_t>(b));
}

void Generator::input_row(std::int64_t row, std::span<float> out) const {
  draw(key(kInput, row, 0), 0, bound_for(1), out);
  round_to(shape_.type, out);
}

void Generator::gradient_row(std::int64_t row, std::span<float> out) const {
  draw(key(kGradient, row, 0), 0, bound_for(1), out);
  round_to(shape_.type, out);
}

void Generator::expert(LayerId layer, ExpertId e, std::span<float> out) const {
  const auto up = static_cast<std::size_t>(shape_.down_offset());
  const std::uint64_t of_expert = key(kWeights, layer.value(), e.value());
  draw(of_expert, 0, bound_for(1 / std::sqrt(static_cast<double>(shape_.hidden))), out.first(up));
  draw(of_expert, shape_.down_offset(),
       bound_for(1 / (depth_ * std::sqrt(static_cast<double>(shape_.intermediate)))), out.subspan(up));
  round_to(shape_.type, out);
}

void Generator::moment(int which, LayerId layer, ExpertId e, std::span<float> out) const {
  draw(key(which == 0 ? kFirstMoment : kSecondMoment, layer.value(), e.value()), 0, 1, out);
}

std::vector<std::byte> to_type(std::span<const float> values, kernels::Type type) {
  std::vector<std::byte> bytes(values.size() * kernels::size_of(type));
  if (type == kernels::Type::float32) {
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  auto* narrow = reinterpret_cast<Bf16*>(bytes.data());
  for (std::size_t i = 0; i < values.size(); ++i) narrow[i] = kernels::from_float<Bf16>(values[i]);
  return bytes;
}

std::vector<float> from_type(std::span<const std::byte> bytes, kernels::Type type) {
  std::vector<float> values(bytes.size() / kernels::size_of(type));
  if (type == kernels::Type::float32) {
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  const auto* narrow = reinterpret_cast<const Bf16*>(bytes.data());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = kernels::to_float(narrow[i]);
  return values;
}

}  // namespace relibra::exec
