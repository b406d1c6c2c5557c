#!/usr/bin/env bash
# Dumps and plans as others see them: the same bytes from any number of ranks, and types, shapes and strings as
# docs/formats.md lists them, read by h5py.
source "$SOURCE/tests/support/whole.sh"
need_python

options=(--preset tiny --seed 3 --micro-batches 4 --source-ranks 8 --missing 2%)
for ranks in 1 2 3 4; do
  quietly on $ranks synth -o dump$ranks.h5 "${options[@]}"
  cmp dump1.h5 dump$ranks.h5 || fail "dumps of 1 and $ranks ranks differ"
done
quietly on 3 synth -o deflated.h5 "${options[@]}" --deflate
quietly on 2 plan dump1.h5 -o plan.h5 --ep-size 8 --gpus-per-node 4
quietly on 3 plan deflated.h5 -o plan2.h5 --ep-size 8 --gpus-per-node 4
cmp plan.h5 plan2.h5 || fail "plans of a contiguous and a compressed dump differ"
quietly "$PYTHON" "$SOURCE/tests/whole/files.py" dump1.h5 deflated.h5 plan.h5

# Shards of a step, made by h5py and named out of order, are the step.
quietly "$PYTHON" "$SOURCE/tests/whole/files.py" --shard dump1.h5 part
quietly on 2 plan part2.h5 part0.h5 part1.h5 -o plan3.h5 --ep-size 8 --gpus-per-node 4
cmp plan.h5 plan3.h5 || fail "plans of one file and of its shards differ"
[ -z "$(find . -name '*.partial')" ] || fail "temporary files are left"

[ -f "$SHARED/tools/verify_plan.py" ] || { echo "digests not compared: no verify_plan.py in $SHARED/tools"; exit 0; }
for dump in dump1.h5 deflated.h5 "part1.h5 part0.h5 part2.h5"; do
  # shellcheck disable=SC2086
  "$PYTHON" "$SHARED/tools/verify_plan.py" --digest $dump >>digests
done
[ "$(sort -u digests | wc -l)" = 1 ] || fail "digests differ: $(cat digests)"
[ "$(h5dump -a dump_digest plan.h5 | grep -o 'c1-[0-9a-f]*')" = "$(head -1 digests)" ] || fail "digest in the plan"
