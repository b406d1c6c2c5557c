#include "tests/gpu/report.h"

#include <cstdio>
#include <exception>

namespace relibra::gpu_check {

void Report::row(const std::string& what, bool good, const std::string& detail) {
  std::printf("%-44s %-6s %s\n", (name_ + (what.empty() ? "" : ", " + what)).c_str(), good ? "ok" : "FAILED",
              detail.c_str());
  std::fflush(stdout);
  ++rows_;
  ++(good ? passed_ : failed_);
}

void Report::run(const std::string& name, const std::function<void()>& check) {
  name_ = name;
  rows_ = 0;
  try {
    check();
    if (rows_ == 0) row("", true, "");
  } catch (const std::exception& thrown) {
    row("", false, thrown.what());
  }
}

void Report::skip(const std::string& name, const std::string& why) {
  std::printf("%-44s %-6s %s\n", name.c_str(), "skip", why.c_str());
  ++skipped_;
}

void Report::compare(const std::string& what, double error, double limit) {
  char text[64];
  std::snprintf(text, sizeof text, "error %.1e, limit %.1e", error, limit);
  row(what, error <= limit, text);  // false for a NaN
}

void Report::rate(const std::string& what, double value, double bare, const std::string& unit, double least) {
  char text[96];
  std::snprintf(text, sizeof text, "%.1f %s, bare %.1f, ratio %.2f, at least %.2f", value, unit.c_str(), bare,
                value / bare, least);
  row(what, !judge_rates_ || value >= least * bare, text);
}

void Report::show(const std::string& what, double value, const std::string& unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f %s", value, unit.c_str());
  row(what, true, text);
}

void Report::expect(const std::string& what, bool holds, const std::string& found) {
  row(what, holds, holds ? "" : "found " + found);
}

void Report::print_total(double seconds) const {
  std::printf("gpu-check: %d passed, %d failed", passed_, failed_);
  if (skipped_ > 0) std::printf(", %d skipped", skipped_);
  std::printf(", %.0f s\n", seconds);
}

}  // namespace relibra::gpu_check
