#pragma once
// Violations: what a correct program never does. The first is kept; from then on every call fails with it, so
// that it cannot be lost, and calls that free things succeed, so that the program can leave.
#include <mutex>
#include <stdexcept>
#include <string>

#include "cuda_runtime_api.h"

namespace cuda_double {

/// Thrown inside the double, never out of it.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A refusal that a correct program may meet, such as too little memory: the call returns `code`.
struct Refusal {
  cudaError_t code;
};

/// Keeps the text, unless there is one, and throws it.
[[noreturn]] void violate(const std::string& text);

/// The first violation; empty where there is none.
const std::string& violation();
void clear_violation();

/// All of the double's state is behind this one mutex.
std::mutex& mutex();

enum class On { use, release };

/// The body of an API function: locked, refused after a violation, exceptions turned into results.
template <class F>
cudaError_t guarded(F&& f, On kind = On::use) {
  std::unique_lock lock(mutex());
  if (!violation().empty()) return kind == On::release ? cudaSuccess : cudaErrorAssert;
  try {
    f(lock);
    return cudaSuccess;
  } catch (const Refusal& refusal) {
    return refusal.code;
  } catch (const Violation&) {
    return cudaErrorAssert;
  }
}

}  // namespace cuda_double

// For tests, which look them up in the module.
extern "C" {
const char* cuda_double_violation();
/// What has not been freed, a line each; empty where everything has.
const char* cuda_double_leaks();
/// A fault for tests: the wait of a stream after the next `number` ones is not made; negative: every wait is.
/// Gives what was left to count of the fault before; negative: it has happened.
int cuda_double_ignore_wait(int number);
/// Forgets the violation and everything that is queued or allocated.
void cuda_double_reset();
}
