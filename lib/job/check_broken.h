#pragma once
// The list of broken rules, as it grows on every process.
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/comm/comm.h"

namespace relibra {

/// Counts all, keeps the first 50 by (cell, text), so that the same ones are shown for any number of
/// processes.
class BrokenRules {
 public:
  static constexpr std::int64_t kWholePlan = -1;  ///< `cell` of a rule that belongs to none
  static constexpr std::size_t kShown = 50;

  /// Returns `holds`.
  bool require(bool holds, std::int64_t cell, const std::string& what) {
    if (!holds) add(cell, what);
    return holds;
  }
  void add(std::int64_t cell, const std::string& what);

  std::int64_t count() const { return count_; }  ///< of this process

  /// Collective: the number of all, and the first 50 of all.
  std::pair<std::int64_t, std::vector<std::string>> gather(const Comm& comm) const;

 private:
  std::int64_t count_ = 0;
  std::multiset<std::pair<std::int64_t, std::string>> first_;
};

}  // namespace relibra
