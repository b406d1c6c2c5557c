#pragma once
// What the benchmarks share: the median of repeated runs.
#include <time.h>

#include <algorithm>
#include <vector>

namespace relibra::bench {

/// CPU seconds of the calling thread, which a busy machine disturbs less than the wall clock.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// CPU seconds of work() in this thread, median of `repeats` after one run to warm up.
template <class Work>
double median_seconds(int repeats, Work&& work) {
  work();
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const double start = thread_seconds();
    work();
    seconds.push_back(thread_seconds() - start);
  }
  std::nth_element(seconds.begin(), seconds.begin() + repeats / 2, seconds.end());
  return seconds[static_cast<std::size_t>(repeats / 2)];
}

}  // namespace relibra::bench
