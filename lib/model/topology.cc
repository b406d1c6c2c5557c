#include "lib/model/topology.h"

#include "lib/base/error.h"

namespace relibra {

void validate(const Topology& t) {
  const auto at_least_one = [](int value, const char* option) {
    if (value < 1) throw_usage({.where = option, .expected = "at least 1", .found = std::to_string(value)});
  };
  at_least_one(t.ep_size, "--ep-size");
  at_least_one(t.ep_groups, "--ep-groups");
  at_least_one(t.gpus_per_node, "--gpus-per-node");
  if (t.gpus_per_node % t.ep_size != 0 && t.ep_size % t.gpus_per_node != 0)
    throw_usage({.where = "--gpus-per-node",
                 .expected = "a divisor or a multiple of --ep-size " + std::to_string(t.ep_size),
                 .found = std::to_string(t.gpus_per_node),
                 .advice = "choose the two so that nodes hold whole EP groups or groups whole nodes"});
}

}  // namespace relibra
