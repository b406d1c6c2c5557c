#pragma once
// What the experts' weights are made of that does not depend on a sequence.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/workload/workload.h"

namespace relibra::workload {

constexpr int kTypes = 8;    ///< token types
constexpr int kTypeRun = 4;  ///< tokens of one type in a row

/// Of one layer.
struct LayerTerms {
  std::vector<double> logit;                    ///< (D, E) base + domain, or log of measured popularity
  std::vector<double> type_weight;              ///< (types, E) exp(type)
  std::vector<std::array<double, kTypes>> mix;  ///< (D) shares of the types
};

std::vector<std::string> domain_names(const WorkloadOptions& options);
/// (L), at options.step.
std::vector<LayerTerms> layer_terms(const WorkloadOptions& options);

/// The sequences of the step with all columns of a dump.
struct WorkloadSequences {
  Sequences columns;
  std::vector<std::int32_t> prompt;  ///< (S)
  std::vector<std::int32_t> domain;  ///< (S)
};
WorkloadSequences workload_sequences(const WorkloadOptions& options);

}  // namespace relibra::workload
