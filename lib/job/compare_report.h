#pragma once
// A comparison told: tables for people, a JSON document, comma-separated values. docs/compare.md lists the
// fields.
#include <nlohmann/json.hpp>
#include <ostream>

#include "lib/job/compare.h"
#include "lib/job/cost_files.h"

namespace relibra {

struct CompareReport {
  const RoutingDump& dump;
  const std::string& digest;
  const CompareOptions& options;
  std::optional<Calibration> calibration;  ///< of the first cluster
  std::vector<Comparison> comparisons;     ///< one, or those of a sweep
  bool swept = false;
};

void print_compare(std::ostream& out, const CompareReport& report);
nlohmann::ordered_json compare_json(const CompareReport& report);
/// A line for every shape, policy and cluster, under a line of names. Policies without a plan are left out.
void print_csv(std::ostream& out, const CompareReport& report);

}  // namespace relibra
