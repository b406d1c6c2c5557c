#include "lib/job/plan_fit.h"

#include "lib/base/error.h"

namespace relibra {

void require_fit(const RoutingDump& dump, const Plan& plan) {
  const auto fail = [](const char* what, std::int64_t expected, std::int64_t found) {
    if (expected == found) return;
    throw_input({.where = std::string("plan, ") + what,
                 .expected = std::to_string(expected) + ", as in the dump",
                 .found = std::to_string(found),
                 .advice = "give the dump that the plan was made from"});
  };
  fail("step", dump.header.step, plan.header.step);
  fail("num_experts", dump.header.num_experts, plan.header.num_experts);
  fail("top_k", dump.header.top_k, plan.header.top_k);
  fail("number of layers", dump.header.num_layers(), plan.header.num_layers());
  fail("number of sequences", dump.sequences.size(), plan.sequences());
}

void require_digest(const std::string& where, const Plan& plan, const std::string& digest) {
  if (digest == plan.header.dump_digest) return;
  throw_input({.where = where,
               .expected = "a plan of this dump, digest " + digest,
               .found = "one of another dump, digest " + plan.header.dump_digest,
               .advice = "plan this dump, or give the dump that the plan was made from"});
}

}  // namespace relibra
