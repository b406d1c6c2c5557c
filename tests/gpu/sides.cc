#include "tests/gpu/sides.h"

#include <cmath>

#include "kernels/registry.h"

namespace relibra::gpu_check {

Sides::Sides(const kernels::Backend& cuda, int index, Report& report, const Sizes& sizes)
    : report(report), sizes(sizes), side{Side{cuda, index}, Side{kernels::reference_backend(), 0}} {}

Twin Sides::random(Type type, std::int64_t count) {
  std::vector<float> wide(static_cast<std::size_t>(count));
  for (float& value : wide) value = static_cast<float>(draw.normal());
  if (type == Type::float32) return upload(wide);
  std::vector<Bf16> narrow;
  for (const float value : wide) narrow.push_back(kernels::from_float<Bf16>(value));
  return upload(narrow);
}

Twin Sides::random_indices(std::int64_t count, std::int64_t below) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (std::int32_t& value : values)
    value = static_cast<std::int32_t>(draw.below(static_cast<std::uint32_t>(below)));
  return upload(values);
}

Twin Sides::empty(std::int64_t bytes) const {
  return {Buffer(side[0].device, static_cast<std::size_t>(bytes)),
          Buffer(side[1].device, static_cast<std::size_t>(bytes))};
}

std::vector<float> Sides::floats(std::size_t s, const Twin& twin, Type type, std::int64_t count) const {
  const auto elements = static_cast<std::size_t>(count);
  if (type == Type::float32) return exec::download<float>(side[s].stream, twin[s].data(), elements);
  std::vector<float> values;
  for (const Bf16 value : exec::download<Bf16>(side[s].stream, twin[s].data(), elements))
    values.push_back(kernels::to_float(value));
  return values;
}

double Sides::difference(const Twin& twin, Type type, std::int64_t count) const {
  const auto got = floats(0, twin, type, count), want = floats(1, twin, type, count);
  double largest = 1e-3, difference = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(got[i])) return std::nan("");
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    difference = std::max(difference, std::abs(static_cast<double>(got[i]) - want[i]));
  }
  return difference / largest;
}

}  // namespace relibra::gpu_check
