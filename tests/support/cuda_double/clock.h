#pragma once
// Vector clocks: what is known to have happened before what. Component 0 is the host, every stream has one of
// its own. A point (component, tick) happened before an operation where the operation's clock has reached it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuda_double {

inline constexpr int kHost = 0;

class Clock {
 public:
  std::uint64_t at(int component) const {
    const auto c = static_cast<std::size_t>(component);
    return c < ticks_.size() ? ticks_[c] : 0;
  }
  std::uint64_t advance(int component) {
    const auto c = static_cast<std::size_t>(component);
    if (ticks_.size() <= c) ticks_.resize(c + 1);
    return ++ticks_[c];
  }
  void join(const Clock& other) {
    if (ticks_.size() < other.ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t c = 0; c < other.ticks_.size(); ++c) ticks_[c] = std::max(ticks_[c], other.ticks_[c]);
  }

 private:
  std::vector<std::uint64_t> ticks_;
};

/// Who did something, for checks and for texts: the `tick`-th thing that `component` did, called `name`.
struct Point {
  int component = kHost;
  std::uint64_t tick = 0;
  const char* name = "";
  bool operator==(const Point& other) const { return component == other.component && tick == other.tick; }
};

inline bool before(const Point& point, const Clock& clock) {
  return clock.at(point.component) >= point.tick;
}

}  // namespace cuda_double
