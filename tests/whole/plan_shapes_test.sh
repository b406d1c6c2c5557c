#!/usr/bin/env bash
# Twenty dumps of odd shapes: the independent checker accepts their plans, and 1, 2 and 3 ranks write the same bytes.
source "${SOURCE:?}/tests/support/whole.sh"
need_shared

seed=0
# shape "MAKE_DUMP OPTIONS" PLAN OPTIONS...
shape() {
  seed=$((seed + 1))
  local made=$1
  shift
  # shellcheck disable=SC2086  # the options are words
  make_dump dump.h5 --seed $seed $made
  for ranks in 1 2 3; do
    quietly on $ranks plan dump.h5 -o plan$ranks.h5 --max-missing 0.3 --seed $seed --effort 2000 "$@"
  done
  cmp plan1.h5 plan2.h5 && cmp plan1.h5 plan3.h5 || fail "plans differ by ranks: $made | $*"
  verify plan1.h5 dump.h5 || fail "$made | $*"
  echo "ok $made | $*"
}

few="--scale 0.001"   # 1 to 16 tokens a sequence: ragged, some without a row, some with one
some="--scale 0.01"
shape "--E 60 --K 6 --L 3 --S 48 --M 4 --ranks 8 $some --dtype u1" --ep-size 8 --gpus-per-node 4
shape "--E 61 --K 8 --L 2 --S 40 --M 5 --ranks 4 $some --dtype i1" --ep-size 4 --gpus-per-node 2 --tolerance 0
shape "--E 64 --K 6 --L 4 --S 64 --M 8 --ranks 16 $some --dtype i2" --ep-size 16 --gpus-per-node 8
shape "--E 160 --K 8 --L 2 --S 64 --M 4 --ranks 32 $some --dtype u1" --ep-size 32 --gpus-per-node 8 --replica-slots 1
shape "--E 257 --K 8 --L 2 --S 64 --M 4 --ranks 32 $some --dtype u2" --ep-size 32 --gpus-per-node 4 --max-fan-out 2
shape "--E 64 --K 1 --L 3 --S 30 --M 3 --ranks 6 $some --dtype i4" --ep-size 6 --gpus-per-node 3
shape "--E 61 --K 2 --L 3 --S 33 --M 3 --ranks 6 $few --dtype i2" --ep-size 6 --gpus-per-node 2
shape "--E 60 --K 2 --L 2 --S 20 --M 2 --ranks 1 $few --dtype u1" --ep-size 1 --gpus-per-node 1
shape "--E 64 --K 8 --L 3 --S 48 --M 4 --ranks 8 $some --dtype u1 --holes 0.02" --ep-size 4 --ep-groups 2 --gpus-per-node 8
shape "--E 160 --K 6 --L 2 --S 48 --M 4 --ranks 16 $some --dtype i2 --holes 0.1" --ep-size 8 --ep-groups 2 --gpus-per-node 4
shape "--E 257 --K 6 --L 2 --S 32 --M 4 --ranks 8 $some --dtype i4 --holes 0.01" --ep-size 4 --ep-groups 2 --gpus-per-node 2 --replica-slots 4
shape "--E 64 --K 6 --L 3 --S 64 --no-mb --no-src $some" --ep-size 8 --gpus-per-node 4 --micro-batches 6 --repack
shape "--E 61 --K 6 --L 3 --S 64 --no-mb --no-src $some --dtype u1 --holes 0.02" --ep-size 16 --gpus-per-node 4 --tokens-per-micro-batch 200
shape "--E 60 --K 8 --L 2 --S 50 --no-mb --no-src $few --shuffle" --ep-size 6 --gpus-per-node 6 --ep-groups 2 --micro-batches 4 --repack
shape "--E 257 --K 1 --L 2 --S 40 --M 4 --no-src $few --dtype u2" --ep-size 16 --gpus-per-node 8
shape "--E 160 --K 2 --L 5 --S 40 --M 4 --no-src $some --deflate" --ep-size 4 --gpus-per-node 4 --policy relibra-replicate
shape "--E 64 --K 8 --L 2 --S 32 --no-mb --ranks 8 $some" --ep-size 8 --gpus-per-node 2 --micro-batches 4 --policy relibra-reorder
shape "--E 60 --K 6 --L 3 --S 12 --M 8 --ranks 8 $few --dtype i1" --ep-size 8 --gpus-per-node 8 --policy static
shape "--E 64 --K 2 --L 2 --S 24 --M 6 --ranks 4 $few --holes 0.1 --dtype u1" --ep-size 1 --ep-groups 4 --gpus-per-node 2
shape "--E 61 --K 1 --L 1 --S 3 --M 3 --ranks 32 $few" --ep-size 32 --gpus-per-node 8 --replica-slots 0
