#pragma once
// The CUDA module on the double, for tests that look into both.
#include <cstdlib>

#include "kernels/registry.h"
#include "lib/base/error.h"

namespace relibra::testing {

inline const kernels::Backend& module_on_double() {
  static const kernels::Backend* backend = [] {
    std::string why_not;
    const char* path = std::getenv("RELIBRA_TEST_MODULES");
    const auto* opened = kernels::open_backend_module(path ? path : "", why_not);
    if (!opened) throw_environment({.where = "RELIBRA_TEST_MODULES", .found = why_not});
    return opened;
  }();
  return *backend;
}

}  // namespace relibra::testing
