#!/usr/bin/env bash
# Real routing records executed and verified: a DeepSeek-style model's, and two steps of a trained model with experts
# that move between them.
. "$SOURCE/tests/support/whole.sh"
need_shared
sizes=(--hidden 24 --intermediate 16 --backend cpu --verify --no-timing)

# verified RANKS ARGUMENTS...
verified() {
  local ranks=$1
  shift
  on "$ranks" run "$@" "${sizes[@]}" >run.log 2>&1 || { cat run.log; fail "run $*"; }
  grep -q "^RESULT run .*verified=yes" run.log || { cat run.log; fail "not verified: run $*"; }
}

record=$SHARED/data/megatron_ds16b/megatron_ds16b_eager_eb80b74_117x27x6_int16.npy
quietly on 1 import "$record" --from npy -o megatron.h5 --experts 64 --first-layer 1
for ranks in 1 2 4; do
  quietly on 2 plan megatron.h5 -o "megatron$ranks.h5" --ep-size "$ranks" --gpus-per-node "$ranks" --micro-batches 1
  verified "$ranks" "megatron$ranks.h5" megatron.h5 --layers 0,13,26
done

a=$SHARED/data/tiny_moe/tiny_moe_step_a.h5 b=$SHARED/data/tiny_moe/tiny_moe_step_b.h5
plan() { quietly on 2 plan "$@" --micro-batches 32 --effort 20k; }
plan "$a" -o a.h5 --ep-size 4 --gpus-per-node 2
plan "$b" -o b.h5 --ep-size 4 --gpus-per-node 2 --previous a.h5 --move-cost 0
verified 4 a.h5 "$a" --layers 0,7 --micro-batches 0,31
verified 4 b.h5 "$b" --layers 0,7 --micro-batches 0 --previous a.h5
grep -qE "reordered [1-9][0-9]* experts" run.log || { cat run.log; fail "no expert moved"; }
plan "$a" -o groups.h5 --ep-size 4 --ep-groups 2 --gpus-per-node 4
verified 8 groups.h5 "$a" --layers 3 --micro-batches 5
refuses 3 "as in the dump" 4 run a.h5 "$b" "${sizes[@]}"
