#!/usr/bin/env bash
# The code in docs/adding-a-policy.md compiles and does what its text says: two nodes of two ranks, worked by hand below.
source "${SOURCE:?}/tests/support/whole.sh"
awk '/^```cpp/ { inside = 1; next } /^```/ { inside = 0 } inside' "$SOURCE/docs/adding-a-policy.md" |
  sed '/{"round-robin"/d' >round_robin.cc
cat >main.cc <<'END'
#include <cstdio>

#include "lib/policy/policy.h"

namespace relibra {
std::unique_ptr<Policy> make_round_robin(const PolicyOptions&);
}

int main() {
  using namespace relibra;
  // P = 4, G = 2, E = 8: rank r is home of r and r + 4. Loads 9 1 2 2 | 1 1 2 2, all from rank 3: node 0 holds
  // 10 and 2, so 4 of expert 0's 9 go to rank 1; node 1 holds 4 and 4, where expert 2 is hottest and rank 2,
  // its home, is least loaded by index: no copy.
  const auto policy = make_round_robin({.topology = {.ep_size = 4, .ep_groups = 1, .gpus_per_node = 2}, .num_experts = 8});
  CellCounts counts(8, 4);
  const int loads[8] = {9, 1, 2, 2, 1, 1, 2, 2};
  for (int e = 0; e < 8; ++e) counts.at(ExpertId(e), RankId(3)) = loads[e];
  const LayerLoads none;
  const auto layer = policy->between_steps({.layer = LayerId(0), .loads = none, .previous_home = {}});
  const auto plan = policy->inside_step(layer, counts);
  for (const Copy& c : plan.copies) std::printf("copy %d on %d slot %d\n", c.expert.value(), c.rank.value(), c.slot);
  for (const SplitEntry& s : plan.split)
    std::printf("split %d from %d to %d: %d\n", s.expert.value(), s.source.value(), s.rank.value(), s.tokens);
}
END
build=$(dirname "$(dirname "$RELIBRA")")
flags=()
! grep -q 'RELIBRA_SANITIZE:BOOL=ON' "$build/CMakeCache.txt" || flags=(-fsanitize=address,undefined)
quietly "${CXX:-c++}" -std=c++20 "${flags[@]}" -I"$SOURCE" main.cc round_robin.cc -o howto -L"$build/lib" -lrelibra_policy -lrelibra_planning \
  -lrelibra_cost -lrelibra_model -lrelibra_base
./howto >found.txt
cat >expected.txt <<'END'
copy 0 on 1 slot 0
split 0 from 3 to 0: 5
split 0 from 3 to 1: 4
END
diff expected.txt found.txt || fail "the example in docs/adding-a-policy.md does something else"
