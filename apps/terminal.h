#pragma once
// What is said along the way, on standard error: by rank 0 only, progress only on a terminal.
#include <string>
#include <string_view>

#include "lib/base/timer.h"
#include "lib/comm/comm.h"

namespace relibra {

class Terminal {
 public:
  explicit Terminal(const Comm& comm);
  ~Terminal();

  /// One line for people.
  void say(const std::string& line);
  /// Redraws the progress line: "count   43 %   2.1 s left". Does nothing where nobody watches.
  void progress(std::string_view phase, double done);
  /// Redraws the same line with other words, where somebody watches.
  void status(const std::string& line);

 private:
  void clear();
  bool speaks_, draws_;
  bool drawn_ = false;
  std::string phase_;
  Timer since_phase_, since_drawn_;
};

}  // namespace relibra
