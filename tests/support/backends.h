#pragma once
// Backends that the contract tests run on: the reference, every module in RELIBRA_TEST_MODULES (paths joined
// by
// ':'), and CUDA where a device answers.
#include <vector>

#include "kernels/backend.h"

namespace relibra::testing {

const std::vector<const kernels::Backend*>& test_backends();

}  // namespace relibra::testing
