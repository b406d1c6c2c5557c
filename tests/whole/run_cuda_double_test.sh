#!/usr/bin/env bash
# The execution phase on the CUDA module, whose host code runs on the test double here: verified at several numbers
# of ranks, in both types, with relays, two groups and reordering; and what `--backend` says and refuses.
. "$SOURCE/tests/support/whole.sh"
export RELIBRA_CUDA_MODULE=$RELIBRA_TEST_MODULES CUDA_DOUBLE_EXIT_CHECK=1

quietly on 1 synth -o dump.h5 --preset tiny --sequences 24 --micro-batches 3 --seed 5
plan() { quietly on 2 plan dump.h5 --replica-slots 2 "$@"; }

# run RANKS NAME ARGUMENTS...: verified, on CUDA, with nothing left behind in the double.
run() {
  local ranks=$1 name=$2
  shift 2
  timeout 300 mpirun -n "$ranks" "$RELIBRA" run "$@" dump.h5 --intermediate 16 --layers 1,3 --micro-batches 0-1 \
    --attention "${attention:-off}" --verify --repeats 1 >"$name.log" 2>&1 || { cat "$name.log"; fail "$name"; }
  grep -q "RESULT .*backend=cuda verified=yes" "$name.log" || { cat "$name.log"; fail "$name is not verified on cuda"; }
}

for ranks in 1 2 4; do
  plan -o "p$ranks.h5" --ep-size "$ranks" --gpus-per-node "$ranks"
  run "$ranks" "float32_$ranks" "p$ranks.h5" --hidden 24 --backend cuda --baseline
done
attention=on run 4 bfloat16 p4.h5 --hidden 24 --dtype bfloat16 --max-fan-out 1
plan -o groups.h5 --ep-size 2 --ep-groups 2 --gpus-per-node 1 --seed 2
run 4 groups groups.h5 --hidden 24
plan -o moved.h5 --ep-size 4 --gpus-per-node 2 --previous p4.h5 --seed 3
run 4 moved moved.h5 --hidden 24 --previous p4.h5

# What cannot be done is refused with one message, on every rank.
sizes=(--hidden 24 --intermediate 16 --layers 0)
CUDA_DOUBLE_DEVICES=3 refuses 2 "a GPU for each of the 4 processes of a host" 4 run p4.h5 dump.h5 "${sizes[@]}"
CUDA_DOUBLE_MEMORY=100000 refuses 4 "memory" 2 run p2.h5 dump.h5 "${sizes[@]}"
refuses 2 "multiples of 8" 2 run p2.h5 dump.h5 --hidden 20 --intermediate 16 --layers 0 --dtype bfloat16
CUDA_DOUBLE_DEVICES=0 refuses 4 "driver version is insufficient" 2 run p2.h5 dump.h5 "${sizes[@]}" --backend cuda

# Without a device, auto takes the host and says why.
CUDA_DOUBLE_DEVICES=0 on 2 run p2.h5 dump.h5 "${sizes[@]}" --micro-batches 0 --verify --no-timing >auto.log 2>&1 ||
  { cat auto.log; fail "auto without a device"; }
grep -q "backend cpu on host (cuda: no CUDA device answers: .*driver version is insufficient" auto.log ||
  { cat auto.log; fail "auto does not say why it took the host"; }
