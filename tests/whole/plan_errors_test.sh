#!/usr/bin/env bash
# Each kind of bad input and usage: its exit status on every rank, one message, no partial file, no hang.
source "${SOURCE:?}/tests/support/whole.sh"
quietly on 1 synth -o dump.h5 --preset tiny --no-micro-batches
mkdir out
shape="--ep-size 4 --gpus-per-node 2"
good="$shape --micro-batches 4"

# planning_refuses STATUS TEXT DUMPS AND OPTIONS...: as refuses, at 1 and 3 ranks, and nothing is left in out/.
planning_refuses() {
  local status=$1 text=$2
  shift 2
  for ranks in 1 3; do refuses "$status" "$text" $ranks plan -o out/plan.h5 "$@"; done
  [ -z "$(ls -A out)" ] || { ls -A out; fail "files left by: $*"; }
}

# shellcheck disable=SC2086  # the options are words
{
  # Usage.
  refuses 2 "subcommand" 2
  refuses 2 "plam" 2 plam
  planning_refuses 2 "DUMP" $good
  planning_refuses 2 "--ep-size" dump.h5 --gpus-per-node 2 --micro-batches 4
  planning_refuses 2 "--gpus-per-node" dump.h5 --ep-size 4 --gpus-per-node 3 --micro-batches 4
  planning_refuses 2 "--policy" dump.h5 $good --policy best
  planning_refuses 2 "--tolerance" dump.h5 $good --tolerance much
  planning_refuses 2 "--tokens-per-micro-batch" dump.h5 $shape --tokens-per-micro-batch 4q
  planning_refuses 2 "--micro-batches" dump.h5 $shape
  planning_refuses 2 "--micro-batches" dump.h5 $good --tokens-per-micro-batch 4k
  planning_refuses 2 "--effort" dump.h5 $good --effort 10 --time-budget 5s
  # Input.
  planning_refuses 3 "none.h5" none.h5 $good
  echo "this is not HDF5" >text.h5
  planning_refuses 3 "text.h5" text.h5 $good
  head -c 3000 dump.h5 >cut.h5
  planning_refuses 3 "cut.h5" cut.h5 $good
  planning_refuses 3 "dump.h5" dump.h5 dump.h5 $good
  planning_refuses 3 "none.plan.h5" dump.h5 $good --previous none.plan.h5
  planning_refuses 3 "dump.h5" dump.h5 $good --previous dump.h5
  # The environment.
  for ranks in 1 3; do refuses 4 "nowhere" $ranks plan dump.h5 -o nowhere/plan.h5 $good; done
  # A plan of another shape.
  quietly on 2 plan dump.h5 -o eight.plan.h5 --ep-size 8 --gpus-per-node 2 --micro-batches 4 --effort 0
  planning_refuses 2 "--previous" dump.h5 $good --previous eight.plan.h5
}

# A full disk under standard output.
status=0
"$RELIBRA" inspect dump.h5 >/dev/full 2>err.log || status=$?
[ $status = 4 ] && grep -q "standard output" err.log || fail "status $status for a full standard output: $(cat err.log)"

# SIGTERM at any moment: no partial file. (mpirun kills a second later, so the files are small.)
quietly on 1 synth -o large.h5 --preset qwen3-30b --scale 1/128 --no-micro-batches
for wait in 0.3 0.5 0.7 0.9 1.2 1.5; do
  timeout --signal=TERM $wait mpirun -n 2 "$RELIBRA" plan large.h5 -o out/plan.h5 --ep-size 16 --gpus-per-node 8 --micro-batches 8 \
    >/dev/null 2>&1 || true
  [ -z "$(find out -name '*partial*')" ] || fail "left after SIGTERM: $(ls -A out)"
done
rm -f out/*

# What needs a pen: changed copies of the dump.
need_python
# changed NAME STATEMENTS: a copy of the dump as NAME, changed by Python statements about the open file f.
changed() { cp dump.h5 "$1" && "$PYTHON" -c "import h5py, numpy as np; f = h5py.File('$1', 'r+'); $2"; }
# shellcheck disable=SC2086
{
  changed big.h5 "f['experts'][5, 1, 0] = int(f.attrs['num_experts'])"
  planning_refuses 3 "layer" big.h5 $good
  changed twice.h5 "f['experts'][7, 0, :] = 1"
  planning_refuses 3 "row" twice.h5 $good
  changed holes.h5 "f.attrs['missing_id'] = 255; f['experts'][::4] = 255"
  planning_refuses 3 "missing" holes.h5 $good
  changed offsets.h5 "f['sequences/row_offset'][1] = -3"
  planning_refuses 3 "row_offset" offsets.h5 $good
  changed physical.h5 "f.attrs['id_space'] = 'physical'"
  planning_refuses 3 "id_space" physical.h5 $good
  changed version.h5 "f.attrs['version'] = 2"
  planning_refuses 3 "version" version.h5 $good
  changed sources.h5 "f['sequences/source_rank'] = np.full(f['sequences/row_offset'].shape[0] - 1, 9, 'i4')"
  planning_refuses 2 "source rank 9" sources.h5 $good
}
