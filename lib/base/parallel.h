#pragma once
// A loop over OpenMP threads out of which an exception may come.
#include <cstdint>
#include <exception>

namespace relibra {

/// Calls f(i) for i in [0, count), in any order, on the threads of the process; after all have ended, throws
/// what the call with the lowest index threw, so that the error is the same for any number of threads.
/// Include only where OpenMP is linked.
template <class F>
void parallel_for(std::int64_t count, F&& f) {
  std::exception_ptr thrown;
  std::int64_t lowest = count;
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t i = 0; i < count; ++i) {
    try {
      f(i);
    } catch (...) {
#pragma omp critical(relibra_parallel_for)
      if (i < lowest) {
        lowest = i;
        thrown = std::current_exception();
      }
    }
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace relibra
