#include "tests/support/backends.h"

#include <cstdlib>
#include <iostream>
#include <sstream>

#include "kernels/registry.h"

namespace relibra::testing {
namespace {

std::vector<const kernels::Backend*> find_backends() {
  std::vector<const kernels::Backend*> found{&kernels::reference_backend()};
  std::string why_not, path;
  if (const char* modules = std::getenv("RELIBRA_TEST_MODULES")) {
    std::istringstream paths(modules);
    while (std::getline(paths, path, ':')) {
      const auto* backend = kernels::open_backend_module(path, why_not);
      if (!backend) {
        std::cerr << "RELIBRA_TEST_MODULES: " << why_not << "\n";
        std::abort();
      }
      found.push_back(backend);
    }
  }
  if (const auto* cuda = kernels::open_cuda_backend(why_not))
    found.push_back(cuda);
  else
    std::cerr << "contract tests run without CUDA: " << why_not << "\n";
  return found;
}

}  // namespace

const std::vector<const kernels::Backend*>& test_backends() {
  static const auto backends = find_backends();
  return backends;
}

}  // namespace relibra::testing
