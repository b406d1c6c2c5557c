#pragma once
// Improving a set of copies towards a target that the construction missed.
#include <cstdint>
#include <vector>

#include "lib/planning/copy_split.h"

namespace relibra {

class CopyRepair {
 public:
  /// `domain` is kept by reference.
  void reset(const DomainLoad& domain, const ReplicateOptions& options);

  /// Lessens what must stay above `target`, step by step. The stuck ranks compute only experts that live
  /// among them, so only a copy from one of them to another rank helps: tries such copies, and where slots or
  /// fan-out are used up, in place of another. True where nothing stays above.
  bool repair(std::int64_t target, CopySplit& split);

 private:
  bool step(std::int64_t target, CopySplit& split);
  bool try_from(int donor, int taker, std::int64_t target, CopySplit& split);
  bool try_copy(int expert, int taker, int instead, std::int64_t target, CopySplit& split);

  DomainLoad domain_;
  ReplicateOptions options_;
  CopySplit trial_;
  std::int64_t above_ = 0;  // what stays above the target now
  int trials_ = 0;          // left
};

}  // namespace relibra
