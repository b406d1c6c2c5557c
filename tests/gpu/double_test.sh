#!/usr/bin/env bash
# gpu-check on the CUDA double: passes on one device and on three, finds a module that is wrong, and says it aloud where
# no device answers.
set -euo pipefail
fail() { echo "FAILED: $*"; exit 1; }
export CUDA_DOUBLE_EXIT_CHECK=1 OMP_NUM_THREADS=1

for devices in 1 3; do
  said=$(CUDA_DOUBLE_DEVICES=$devices "$GPU_CHECK" "$MODULE" --small) || { echo "$said"; fail "$devices devices"; }
  grep -Eq 'gpu-check: [0-9]+ passed, 0 failed' <<<"$said" || { echo "$said"; fail "$devices devices: no total"; }
done
grep -q 'transport between 3 devices, weights arrive *ok' <<<"$said" || { echo "$said"; fail "the transport was not checked"; }

status=0
said=$(CUDA_DOUBLE_EXIT_CHECK='' "$GPU_CHECK" "$BROKEN" --small) || status=$?
[ "$status" = 1 ] || { echo "$said"; fail "status $status on a broken module, expected 1"; }
for wrong in 'float32 x 64, combine_rows' 'bfloat16 x 37, combine_rows' 'float32, fill and accumulate' 'streams, a stream waits'; do
  grep -q "$wrong.* FAILED" <<<"$said" || { echo "$said"; fail "'$wrong' was not found wrong"; }
done
! grep -q 'gather_rows.* FAILED' <<<"$said" || { echo "$said"; fail "gather_rows was found wrong"; }

status=0
said=$(CUDA_DOUBLE_DEVICES=0 "$GPU_CHECK" "$MODULE" --no-device-status 77) || status=$?
[ "$status" = 77 ] && grep -q 'SKIPPED, nothing was checked: no CUDA device answers (.*insufficient' <<<"$said" ||
  fail "without a device: status $status, '$said'"
CUDA_DOUBLE_DEVICES=0 "$GPU_CHECK" "$MODULE" >/dev/null || fail "without a device the default status is 0"
