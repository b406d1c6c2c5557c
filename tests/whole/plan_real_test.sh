#!/usr/bin/env bash
# Real routing records: digests as published, plans accepted by the independent checker, from 1 to 3 ranks alike.
source "${SOURCE:?}/tests/support/whole.sh"
need_shared

# planned DUMP OPTIONS...
planned() {
  local dump=$1
  shift
  for ranks in 1 2 3; do quietly on $ranks plan "$dump" -o plan$ranks.h5 "$@"; done
  cmp plan1.h5 plan2.h5 && cmp plan1.h5 plan3.h5 || fail "plans of $dump differ by ranks"
  verify plan1.h5 "$dump"
}

while read -r record digest; do
  quietly on 2 import "$SHARED"/data/megatron_ds16b/megatron_ds16b_${record}_117x27x6_int16.npy --from npy --experts 64 \
    --first-layer 1 -o $record.h5
  grep -q "$digest" quiet.log || { cat quiet.log; fail "digest of $record is not $digest"; }
  planned $record.h5 --ep-size 8 --gpus-per-node 8 --micro-batches 1
  planned $record.h5 --ep-size 8 --gpus-per-node 4 --micro-batches 1
done <<'END'
eager_eb80b74 c1-4e8499995f72413e
eager_ecb5dfa c1-d6d58806f4eea1e9
cudagraph_eb80b74 c1-399d6400a5b1dff8
END

for step in a b; do
  dump=$SHARED/data/tiny_moe/tiny_moe_step_$step.h5
  planned "$dump" --ep-size 16 --gpus-per-node 8 --micro-batches 32
  planned "$dump" --ep-size 8 --ep-groups 2 --gpus-per-node 4 --tokens-per-micro-batch 2k
done
# Both steps in one call: the second plan starts from the first.
quietly on 2 plan "$SHARED"/data/tiny_moe/tiny_moe_step_*.h5 -o steps/ --ep-size 16 --gpus-per-node 8 --micro-batches 32
for step in a b; do
  dump=$SHARED/data/tiny_moe/tiny_moe_step_$step.h5
  number=$("$PYTHON" -c 'import h5py, sys; print("%06d" % h5py.File(sys.argv[1]).attrs["step"])' "$dump")
  verify steps/step-$number.plan.h5 "$dump"
done
