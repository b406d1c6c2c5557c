#!/usr/bin/env bash
# Every policy of the table: 1, 2 and 3 ranks write the same bytes, `check` and the independent checker accept the plan,
# with the options that single policies have; what does not fit is refused. (`run --verify` of each: run_test.sh.)
source "${SOURCE:?}/tests/support/whole.sh"
need_shared

make_dump dump.h5 --seed 3 --E 60 --K 4 --L 3 --S 48 --M 4 --ranks 16 --scale 0.01
shape=(--ep-size 8 --ep-groups 2 --gpus-per-node 4 --effort 2000 --seed 4)

# same_and_right NAME OPTIONS...
same_and_right() {
  local name=$1
  shift
  for ranks in 1 2 3; do quietly on $ranks plan dump.h5 -o "$name$ranks.h5" "${shape[@]}" "$@"; done
  cmp "${name}1.h5" "${name}2.h5" && cmp "${name}1.h5" "${name}3.h5" || fail "plans differ by ranks: $*"
  quietly on 2 check "${name}1.h5" dump.h5 --first
  verify "${name}1.h5" dump.h5 || fail "$*"
}

policies=$(on 1 plan --help | sed -n 's/^ *\([a-z][a-z-]*\): .*/\1/p')
for name in eplb eplb-micro-batch lplb ultraep relibra-split relibra-hybrid; do
  grep -qx "$name" <<<"$policies" || fail "$name is not in the help of plan"
done
for policy in $policies; do same_and_right "$policy" --policy "$policy"; done
for slots in 0 1 3; do
  for policy in eplb eplb-micro-batch lplb ultraep relibra-split relibra-hybrid; do
    same_and_right "$policy-$slots" --policy "$policy" --replica-slots $slots
  done
done
same_and_right groups --policy eplb --expert-groups 4
same_and_right cube --policy lplb --lplb-graph cube
same_and_right near --policy ultraep --ultraep-domain node --ultraep-floor 1
same_and_right free --policy relibra-hybrid --push-price 0 --tolerance 0
[ "$(on 1 inspect groups1.h5 --json | sed -n 's/.*"replica_domain": "\(.*\)".*/\1/p')" = node ] || fail "hierarchical EPLB leaves nodes"

# What EPLB folds is in the file, the document and the summary.
quietly on 2 plan dump.h5 -o folded.h5 --ep-size 16 --gpus-per-node 4 --policy eplb --replica-slots 4
folded=$(on 1 inspect folded.h5 --json | sed -n 's/.*"folded_copies": \([0-9]*\).*/\1/p')
[ "$folded" -gt 0 ] || fail "no folded copies"
grep -q "folded: " quiet.log || fail "folded copies are not in the summary"

# The plan before: what EPLB leaves in place, and more home slots than a contiguous plan has.
quietly on 2 plan dump.h5 -o next.h5 "${shape[@]}" --policy relibra --previous eplb1.h5
quietly on 2 check next.h5 dump.h5 --previous eplb1.h5

refuses 2 "--expert-groups" 2 plan dump.h5 -o x.h5 "${shape[@]}" --policy eplb --expert-groups 14
refuses 2 "--lplb-graph" 2 plan dump.h5 -o x.h5 "${shape[@]}" --policy lplb --lplb-graph hypercube
refuses 2 "--push-price" 2 plan dump.h5 -o x.h5 "${shape[@]}" --push-price -1

# With copies free to leave their node, every cell is at the mean, or nearly.
for preset in ep16 ep32 ep64; do
  make_dump $preset.h5 --preset $preset --seed 1
  quietly on 2 plan $preset.h5 -o $preset.plan.h5 --ep-size ${preset#ep} --gpus-per-node 8 --policy relibra-hybrid \
    --tolerance 0 --push-price 0 --no-transfers --metrics $preset.json
  "$PYTHON" - $preset.json <<'PY'
import json, sys
skew = json.load(open(sys.argv[1]))["overall"]["after"]["skew"]["mean"]
print(sys.argv[1], "skew mean", skew)
assert 1 <= skew <= 1.003, skew
PY
done
