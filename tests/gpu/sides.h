#pragma once
// The two backends that are held against each other, and memory that is the same on both.
#include <array>
#include <vector>

#include "kernels/bodies/host_device.h"
#include "lib/base/random.h"
#include "lib/exec/device.h"
#include "tests/gpu/report.h"

namespace relibra::gpu_check {

using exec::Buffer;
using kernels::Bf16;
using kernels::Type;

/// How large the checks are. `small` is for the test double, which is slow.
struct Sizes {
  std::int64_t rows, wide;                 ///< kernels: rows, and the width of a hidden state
  std::int64_t gemm_rows, gemm_n, gemm_k;  ///< products that are checked against plain loops
  std::int64_t rate_rows, rate_n, rate_k;  ///< products that are timed
  int rate_groups, repeats;
  std::size_t copy_bytes;
};
inline constexpr Sizes kFull{3000, 4096, 300, 512, 640, 1024, 3072, 2048, 8, 20, std::size_t{256} << 20};
inline constexpr Sizes kSmall{60, 64, 20, 24, 40, 8, 16, 24, 3, 2, std::size_t{1} << 16};

struct Side {
  Side(const kernels::Backend& backend, int index) : device(backend, index), stream(device) {}
  const kernels::Backend& backend() const { return device.backend(); }
  void ok(kernels::Status status, const char* call) const { device.check(status, call); }

  exec::Device device;
  exec::Stream stream;
};

/// One block of memory on each side, [0] the device's and [1] the reference's.
using Twin = std::array<Buffer, 2>;

class Sides {
 public:
  Sides(const kernels::Backend& cuda, int index, Report& report, const Sizes& sizes);

  template <class T>
  Twin upload(const std::vector<T>& values) const {
    return {exec::upload(side[0].stream, std::span<const T>(values)),
            exec::upload(side[1].stream, std::span<const T>(values))};
  }
  /// Normal random values of a type.
  Twin random(Type type, std::int64_t count);
  Twin random_indices(std::int64_t count, std::int64_t below);
  Twin empty(std::int64_t bytes) const;

  /// Largest difference over the largest absolute value of the reference (at least 1e-3).
  double difference(const Twin& twin, Type type, std::int64_t count) const;

  /// Calls f(side, 0 or 1) for the device and for the reference.
  template <class F>
  void both(F&& f) {
    for (std::size_t s = 0; s < 2; ++s) f(side[s], s);
  }

  Report& report;
  Sizes sizes;
  Random draw{11};
  std::array<Side, 2> side;

 private:
  std::vector<float> floats(std::size_t s, const Twin& twin, Type type, std::int64_t count) const;
};

void check_kernels(Sides& sides);
void check_gemm(Sides& sides);
void check_rates(Sides& sides);
void check_runtime(Sides& sides);
void check_network(Sides& sides);
/// All devices of the machine, a thread each, over the transport of the engine.
void check_transport(const kernels::Backend& cuda, int devices, Report& report, const Sizes& sizes);

inline const char* name_of(Type type) {
  return type == Type::float32 ? "float32" : "bfloat16";
}

}  // namespace relibra::gpu_check
