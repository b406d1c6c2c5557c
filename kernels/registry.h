#pragma once
// Finding backends: the reference one is compiled in, others are shared modules opened at run time, so that
// one build runs on machines with and without a GPU, its driver or its libraries.
#include <string>

#include "kernels/backend.h"

namespace relibra::kernels {

const Backend& reference_backend();

/// Opens a module; never unloads it. Null on failure, with a sentence in `why_not`.
const Backend* open_backend_module(const std::string& path, std::string& why_not);

/// The CUDA module: the file named by RELIBRA_CUDA_MODULE if that is set, else librelibra_cuda.so beside the
/// program or in ../lib of it. Null where there is none, it does not load or no device answers; `why_not`
/// says which.
const Backend* open_cuda_backend(std::string& why_not);

}  // namespace relibra::kernels
