// Clusters by name. Nominal figures are the makers'; docs/compare.md says where the shares are from.
#include "lib/base/error.h"
#include "lib/cost/step_time.h"

namespace relibra {

std::span<const Cluster> cluster_presets() {
  constexpr double tera = 1e12, giga = 1e9;
  constexpr double gemm = 0.65, half_rows = 128, attention = 0.5, nvlink = 0.78, network = 0.86,
                   latency = 30e-6;
  const auto cluster = [&](const char* name, double flops, double nvlink_bytes, double network_bytes) {
    return Cluster{name,         flops,  gemm,          half_rows, attention,
                   nvlink_bytes, nvlink, network_bytes, network,   latency};
  };
  static const Cluster presets[] = {
      cluster("hopper-ib400", 989 * tera, 450 * giga, 50 * giga),     // H100, H200: NVLink 4
      cluster("hopper-ib200", 989 * tera, 450 * giga, 25 * giga),     //
      cluster("h800-ib400", 989 * tera, 200 * giga, 50 * giga),       // NVLink cut to 400 GB/s both ways
      cluster("ampere-ib200", 312 * tera, 300 * giga, 25 * giga),     // A100: NVLink 3
      cluster("blackwell-ib400", 2250 * tera, 900 * giga, 50 * giga)  // B200: NVLink 5
  };
  return presets;
}

const Cluster& cluster_preset(std::string_view name) {
  std::string names;
  for (const Cluster& preset : cluster_presets()) {
    if (preset.name == name) return preset;
    names += (names.empty() ? "" : ", ") + preset.name;
  }
  throw_usage({.where = "--cluster",
               .expected = "one of " + names + ", or a JSON or TOML file",
               .found = std::string(name)});
}

}  // namespace relibra
