#!/usr/bin/env bash
# `check` and the independent verify_plan.py agree: on valid plans in every statistic, on mutated files that they are broken.
source "$SOURCE/tests/support/whole.sh"
need_shared

# plan_case NAME PLAN_OPTIONS... -- DUMP...: a plan of two ranks, checked by three, verified, statistics compared.
plan_case() {
  local name=$1 options=()
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  on 2 plan "$@" -o "$name.plan.h5" "${options[@]}" >/dev/null
  on 3 check "$name.plan.h5" "$@" --first --json >mine.json || { cat mine.json; fail "check of $name"; }
  "$PYTHON" "$SHARED/tools/verify_plan.py" "$name.plan.h5" "$@" --json >theirs.json || { cat theirs.json; fail "verify_plan of $name"; }
  "$PYTHON" "$SOURCE/tests/whole/check_agrees.py" statistics mine.json theirs.json || fail "statistics of $name"
}

make_dump wide.h5 --E 32 --K 4 --L 3 --S 64 --M 4 --ranks 16 --scale 0.02 --seed 3 --holes 0.01
plan_case wide --ep-size 8 --ep-groups 2 --gpus-per-node 4 -- wide.h5
make_dump odd.h5 --E 61 --K 6 --L 2 --S 40 --M 3 --ranks 6 --scale 0.02 --dtype u1 --no-mb --no-src
plan_case odd --ep-size 6 --gpus-per-node 3 --micro-batches 3 --replica-slots 1 -- odd.h5
plan_case single --ep-size 4 --ep-groups 2 --gpus-per-node 1 --micro-batches 2 -- odd.h5
plan_case shared --ep-size 2 --ep-groups 4 --gpus-per-node 4 --micro-batches 2 --policy static -- odd.h5
[ -f "$SHARED/data/tiny_moe/tiny_moe_step_a.h5" ] &&
  plan_case learned --ep-size 16 --gpus-per-node 8 --micro-batches 32 -- "$SHARED/data/tiny_moe/tiny_moe_step_a.h5"

# Every mutation of a file is found by both. They may word it as a broken rule (1) or refuse to read the file.
"$PYTHON" "$SOURCE/tests/whole/check_agrees.py" mutate wide.plan.h5 wide.h5 "$SHARED/tools/verify_plan.py" >mutated.txt ||
  { tail -1 mutated.txt; fail "verify_plan.py does not find a mutation"; }
while read -r mutated; do
  status=0
  "$RELIBRA" check "$mutated" wide.h5 >mine.txt 2>&1 || status=$?
  [ "$status" = 1 ] || [ "$status" = 3 ] || { cat mine.txt; fail "$mutated: check ends with $status"; }
done <mutated.txt

# A dump of other content under the same plan.
make_dump other.h5 --E 32 --K 4 --L 3 --S 64 --M 4 --ranks 16 --scale 0.02 --seed 4 --holes 0.01
on 2 check wide.plan.h5 other.h5 >mine.txt 2>&1 && fail "a plan of another dump passes"
grep -q "dump_digest" mine.txt || { cat mine.txt; fail "the digest is not named"; }
