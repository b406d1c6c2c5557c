// gpu-check: the CUDA module on the devices of this machine, without MPI and HDF5. Exit status 0: nothing
// failed, or no device answers; 1: a check failed; 4: the module cannot be opened. See scripts/gpu-check.sh.
//
//   gpu-check MODULE [--small] [--no-device-status N]
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/registry.h"
#include "lib/base/timer.h"
#include "tests/gpu/sides.h"

namespace {

using namespace relibra;
using namespace relibra::gpu_check;

struct Options {
  std::string module;
  bool small = false;        // sizes for the test double; rates are not judged
  int no_device_status = 0;  // exit status where no device answers
};

int usage() {
  std::fprintf(stderr, "usage: gpu-check MODULE [--small] [--no-device-status N]\n");
  return 2;
}

void check_device(const kernels::Backend& cuda, Report& report, const Sizes& sizes) {
  Sides sides(cuda, 0, report, sizes);
  const auto info = sides.side[0].device.info();
  std::printf("device 0: %s at %s, %.1f of %.1f GB free\n\n", info.name, info.bus,
              static_cast<double>(info.free_bytes) * 1e-9, static_cast<double>(info.total_bytes) * 1e-9);
  check_runtime(sides);
  check_kernels(sides);
  check_gemm(sides);
  check_network(sides);
  check_rates(sides);
}

int run(const Options& options) {
  const Timer timer;
  std::string why_not;
  const kernels::Backend* cuda = kernels::open_backend_module(options.module, why_not);
  if (!cuda) {
    std::fprintf(stderr, "gpu-check: %s\n", why_not.c_str());
    return 4;
  }
  std::int32_t devices = 0;
  exec::check(*cuda, cuda->device_count(&devices), "device_count");
  if (devices == 0) {
    std::printf("gpu-check: SKIPPED, nothing was checked: no CUDA device answers (%s)\n", cuda->last_error());
    return options.no_device_status;
  }
  const Sizes& sizes = options.small ? kSmall : kFull;
  Report report(!options.small);
  check_device(*cuda, report, sizes);
  check_transport(*cuda, devices, report, sizes);
  report.print_total(timer.seconds());
  return report.failed() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--small") == 0)
      options.small = true;
    else if (std::strcmp(argv[i], "--no-device-status") == 0 && i + 1 < argc)
      options.no_device_status = std::atoi(argv[++i]);
    else if (options.module.empty() && argv[i][0] != '-')
      options.module = argv[i];
    else
      return usage();
  }
  if (options.module.empty()) return usage();
  try {
    return run(options);
  } catch (const std::exception& thrown) {
    std::fprintf(stderr, "gpu-check: %s\n", thrown.what());
    return 4;
  }
}
