#!/usr/bin/env bash
# Several steps in one call: each plan starts from the one before, and is what separate calls with --previous write. And the
# options that change what is written: --time-budget, --no-transfers, --metrics, --json.
source "${SOURCE:?}/tests/support/whole.sh"
for step in 0 1 2; do quietly on 2 synth -o step$step.h5 --preset tiny --step $step --seed 4; done
# breaks ARGUMENTS...: the check finds broken rules.
breaks() {
  local status=0
  on 2 "$@" >breaks.log 2>&1 || status=$?
  [ $status = 1 ] && grep -q BROKEN breaks.log || { cat breaks.log; fail "status $status, expected 1: $*"; }
}
shape=(--ep-size 8 --gpus-per-node 4 --effort 3000)

quietly on 3 plan step2.h5 step0.h5 step1.h5 -o plans/ "${shape[@]}"
[ "$(ls -A plans | tr '\n' ' ')" = "step-000000.plan.h5 step-000001.plan.h5 step-000002.plan.h5 " ] ||
  fail "plans/ holds $(ls -A plans)"
quietly on 1 plan step0.h5 -o zero.h5 "${shape[@]}"
quietly on 2 plan step1.h5 -o one.h5 "${shape[@]}" --previous zero.h5
quietly on 1 plan step2.h5 -o two.h5 "${shape[@]}" --previous one.h5
cmp zero.h5 plans/step-000000.plan.h5 && cmp one.h5 plans/step-000001.plan.h5 && cmp two.h5 plans/step-000002.plan.h5 ||
  fail "one call and three calls write different plans"
quietly on 2 check zero.h5 step0.h5 --first
quietly on 2 check one.h5 step1.h5 --previous zero.h5
breaks check one.h5 step1.h5 --first

# Moves are made only where they pay: free ones are many, priceless ones none.
moves() { "$RELIBRA" plan step1.h5 -o moved.h5 "${shape[@]}" --previous zero.h5 --move-cost "$1" --json | grep -A3 '"moves"'; }
moves 1e15 | grep -q '"experts": 0,' || fail "experts move at any price: $(moves 1e15)"
! moves 0 | grep -q '"experts": 0,' || fail "no expert moves for nothing"

# A time budget records the moves that make the plan again.
quietly on 2 plan step0.h5 -o timed.h5 --ep-size 8 --gpus-per-node 4 --time-budget 500ms
searched=$("$RELIBRA" inspect timed.h5 --json | sed -n 's/.*"search_moves": \([0-9]*\).*/\1/p')
quietly on 1 plan step0.h5 -o again.h5 --ep-size 8 --gpus-per-node 4 --effort "$searched"
cmp timed.h5 again.h5 || fail "--effort $searched does not make the timed plan again"

quietly on 2 plan step0.h5 -o slim.h5 "${shape[@]}" --no-transfers --metrics metrics.json
quietly on 2 check slim.h5 step0.h5 --no-transfers
breaks check slim.h5 step0.h5
for field in '"skew"' '"cross_node_pairs"' '"bytes_read"' '"seconds"' '"layers"'; do
  grep -q "$field" metrics.json || fail "no $field in metrics.json"
done
