// What a program has left behind, and forgetting everything between tests. With CUDA_DOUBLE_EXIT_CHECK set, a
// program that leaves things behind, or met a violation, ends with status 97.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/cuda_double/communicator.h"
#include "tests/support/cuda_double/queue.h"

namespace cuda_double {

std::string runtime_leaks();
std::string blas_leaks();
void reset_events();
void reset_blas();

namespace {

constexpr int kExitStatus = 97;

[[gnu::destructor]] void check_at_exit() {
  const char* asked = std::getenv("CUDA_DOUBLE_EXIT_CHECK");
  if (!asked || !*asked) return;
  const std::string left = violation().empty() ? cuda_double_leaks() : violation();
  if (left.empty()) return;
  std::fprintf(stderr, "CUDA double, at exit: %s\n", left.c_str());
  _exit(kExitStatus);
}

}  // namespace
}  // namespace cuda_double

extern "C" {

const char* cuda_double_leaks() {
  using namespace cuda_double;
  static std::string text;
  std::lock_guard lock(mutex());
  text = memory_leaks() + runtime_leaks() + blas_leaks() + communicator_leaks();
  return text.c_str();
}

void cuda_double_reset() {
  using namespace cuda_double;
  std::lock_guard lock(mutex());
  clear_violation();
  clear_group();
  reset_communicators();
  reset_queues();
  reset_events();
  reset_blas();
  reset_memory();
  reset_wire();
}

}  // extern "C"
