#!/usr/bin/env bash
# Every numbered example runs in an empty folder, and what it leaves is right.
source "${SOURCE:?}/tests/support/whole.sh"
PATH=$(dirname "$RELIBRA"):$PATH
export PATH
for example in "$SOURCE"/examples/[0-9]*.sh; do
  name=$(basename "$example" .sh)
  mkdir "$name"
  (cd "$name" && quietly bash "$example")
  echo "ok $name"
done

need_python
quietly "$PYTHON" "$SOURCE/examples/02-write-a-dump.py" written.h5
quietly on 2 plan written.h5 -o written.plan.h5 --ep-size 4 --gpus-per-node 2 --micro-batches 4
quietly on 2 check written.plan.h5 written.h5 --first
echo "ok 02-write-a-dump"
