#pragma once
// The table that gpu-check prints, and its last line, "N passed, N failed".
#include <functional>
#include <string>
#include <vector>

namespace relibra::gpu_check {

class Report {
 public:
  /// Without `judge_rates` rates are shown, and none is too low: for machines whose speed means nothing.
  explicit Report(bool judge_rates) : judge_rates_(judge_rates) {}

  /// Runs one check; what it throws is its failure. A check that adds no row has passed.
  void run(const std::string& name, const std::function<void()>& check);
  void skip(const std::string& name, const std::string& why);

  /// Rows of the check that is running. A comparison fails where error > limit, a rate where it is under
  /// `least` times the bare call's.
  void compare(const std::string& what, double error, double limit);
  void rate(const std::string& what, double value, double bare, const std::string& unit, double least);
  void show(const std::string& what, double value, const std::string& unit);
  void expect(const std::string& what, bool holds, const std::string& found);

  bool failed() const { return failed_ > 0; }
  void print_total(double seconds) const;

 private:
  void row(const std::string& what, bool good, const std::string& detail);

  bool judge_rates_;
  std::string name_;
  int rows_ = 0, passed_ = 0, failed_ = 0, skipped_ = 0;
};

}  // namespace relibra::gpu_check
