#!/usr/bin/env bash
# The readers of plans in examples/, Python and C++: their arrays are what the rows of the dump and `check` give, and the same from both.
. "$SOURCE/tests/support/whole.sh"
need_python
export PYTHONPATH=$SOURCE/examples PYTHONDONTWRITEBYTECODE=1
oracle() { quietly "$PYTHON" "$SOURCE/tests/whole/python_reader.py" "$@"; cat quiet.log; }
read_plan=$(dirname "$RELIBRA")/read_plan

oracle shards s0.h5 s1.h5
for step in 0 1; do quietly on 1 synth -o step$step.h5 --preset tiny --sequences 24 --micro-batches 3 --step $step --seed $step; done

# holds NAME OPTIONS... -- DUMP...
holds() {
  local name=$1 options=()
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  quietly on 2 plan "$@" -o "$name.plan.h5" "${options[@]}"
  on 2 check "$name.plan.h5" "$@" --json --no-transfers >"$name.json" || fail "check of $name"
  oracle arrays "$name.plan.h5" "$name.json" "$@"
}
holds nodes --ep-size 4 --gpus-per-node 2 -- step0.h5
holds groups --ep-size 4 --ep-groups 2 --gpus-per-node 4 --micro-batches 2 -- s1.h5 s0.h5
holds shared --ep-size 2 --ep-groups 2 --gpus-per-node 4 --micro-batches 3 --replica-slots 1 -- s0.h5 s1.h5
holds bare --ep-size 4 --gpus-per-node 4 --no-transfers -- step0.h5
holds moved --ep-size 4 --gpus-per-node 2 --previous nodes.plan.h5 -- step1.h5

oracle others nodes.plan.h5 step0.h5 step1.h5
oracle waits nodes.plan.h5 moved.plan.h5

# The C++ reader prints what the Python reader prints.
same() {
  local name=$1 step=$2
  shift 2
  timeout 100 mpirun -n 3 "$read_plan" "$name.plan.h5" "$@" >cpp.txt
  "$PYTHON" "$SOURCE/examples/03-read-a-plan.py" "$name.plan.h5" "$step" "$@" --cells >python.txt
  cmp python.txt cpp.txt
  timeout 100 mpirun -n 1 "$read_plan" "$name.plan.h5" "$@" >cpp.txt
  cmp python.txt cpp.txt
}
same nodes 0 step0.h5
same groups 4 s0.h5 s1.h5
(sleep 1; cp nodes.plan.h5 .late && mv .late late.plan.h5) &
same late 0 step0.h5
"$PYTHON" "$SOURCE/examples/03-read-a-plan.py" moved.plan.h5 1 step1.h5 >summary.txt
[ "$(grep -c '^rank ' summary.txt)" = 4 ] || fail "not a line a rank: $(cat summary.txt)"
status=0
timeout 60 mpirun -n 2 "$read_plan" nodes.plan.h5 step1.h5 >cpp.txt 2>err.txt || status=$?
[ $status = 3 ] || fail "read_plan of another routing ends with $status"
[ "$(grep -c '^read_plan: .*a plan of routing c1-' err.txt)" = 1 ] || fail "read_plan of another routing says: $(cat err.txt)"
