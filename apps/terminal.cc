#include "apps/terminal.h"

#include <unistd.h>

#include <cstdio>

#include "lib/base/units.h"

namespace relibra {

constexpr double kRedrawSeconds = 0.1;

Terminal::Terminal(const Comm& comm) : speaks_(comm.root()), draws_(comm.root() && isatty(STDERR_FILENO)) {}

Terminal::~Terminal() {
  clear();
}

void Terminal::say(const std::string& line) {
  if (!speaks_) return;
  clear();
  std::fprintf(stderr, "%s\n", line.c_str());
}

void Terminal::progress(std::string_view phase, double done) {
  if (!draws_) return;
  if (phase != phase_) {
    phase_ = phase;
    since_phase_.restart();
  } else if (since_drawn_.seconds() < kRedrawSeconds) {
    return;
  }
  since_drawn_.restart();
  const double spent = since_phase_.seconds();
  const std::string left =
      done > 0 && done < 1 ? format_seconds(spent / done * (1 - done)) + " left" : std::string{};
  std::fprintf(stderr, "\r\033[K%-10s %3.0f %%  %s", phase_.c_str(), 100 * done, left.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Terminal::status(const std::string& line) {
  if (!draws_ || (drawn_ && line == phase_ && since_drawn_.seconds() < 10 * kRedrawSeconds)) return;
  phase_ = line;
  since_drawn_.restart();
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Terminal::clear() {
  if (!drawn_) return;
  std::fprintf(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace relibra
