#!/usr/bin/env bash
# Every numbered example runs in an empty folder.
source "${SOURCE:?}/tests/support/whole.sh"
PATH=$(dirname "$RELIBRA"):$PATH
export PATH
for example in "$SOURCE"/examples/[0-9]*.sh; do
  name=$(basename "$example" .sh)
  mkdir "$name"
  (cd "$name" && quietly bash "$example")
  echo "ok $name"
done
