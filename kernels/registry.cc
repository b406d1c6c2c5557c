#include "kernels/registry.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace relibra::kernels {
namespace {

std::vector<std::string> cuda_module_candidates() {
  if (const char* named = std::getenv("RELIBRA_CUDA_MODULE")) return {named};
  std::error_code failure;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return {};
  const auto folder = program.parent_path();
  return {(folder / "librelibra_cuda.so").string(),
          (folder.parent_path() / "lib/librelibra_cuda.so").string()};
}

}  // namespace

const Backend* open_backend_module(const std::string& path, std::string& why_not) {
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module) {
    why_not = dlerror();
    return nullptr;
  }
  const auto open = reinterpret_cast<OpenBackend>(dlsym(module, kOpenBackendSymbol));
  if (!open) {
    why_not = path + " is not a backend of this program";
    return nullptr;
  }
  const Backend* backend = open(kBackendVersion);
  if (!backend) why_not = path + " belongs to another version of this program";
  return backend;
}

const Backend* open_cuda_backend(std::string& why_not) {
  why_not = "this build has no CUDA module (librelibra_cuda.so)";
  for (const std::string& path : cuda_module_candidates()) {
    std::error_code failure;
    if (!std::filesystem::exists(path, failure)) continue;
    const Backend* backend = open_backend_module(path, why_not);
    if (!backend) return nullptr;
    std::int32_t devices = 0;
    if (backend->device_count(&devices) == Status::ok && devices > 0) return backend;
    why_not = std::string("no CUDA device answers: ") + backend->last_error();
    return nullptr;
  }
  return nullptr;
}

}  // namespace relibra::kernels
