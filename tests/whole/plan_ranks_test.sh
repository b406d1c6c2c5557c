#!/usr/bin/env bash
# One dump, one seed: the same plan bytes for 1, 2, 3, 4 and 8 ranks and for 1 and 2 threads; and the plan is right.
source "${SOURCE:?}/tests/support/whole.sh"
quietly on 2 synth -o dump.h5 --preset tiny --seed 3 --no-micro-batches
plan() { quietly on "$1" plan dump.h5 -o "$2" --ep-size 8 --gpus-per-node 4 --micro-batches 8 --effort 5000 --seed 9; }
plan 1 first.h5
for ranks in 2 3 4 8; do
  plan $ranks other.h5
  cmp first.h5 other.h5 || fail "$ranks ranks write another plan"
done
for ranks in 1 2; do
  OMP_NUM_THREADS=2 plan $ranks other.h5
  cmp first.h5 other.h5 || fail "2 threads on $ranks ranks write another plan"
done
quietly on 2 check first.h5 dump.h5
quietly on 1 plan dump.h5 -o other.h5 --ep-size 8 --gpus-per-node 4 --micro-batches 8 --effort 5000 --seed 10
! cmp -s first.h5 other.h5 || fail "another seed writes the same plan"
