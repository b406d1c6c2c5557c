# Helpers of the whole-run tests; source it first. Environment: RELIBRA the driver, SOURCE the tree, WORK an own folder.
set -euo pipefail
rm -rf "$WORK" && mkdir -p "$WORK" && cd "$WORK"
SHARED=${RELIBRA_SHARED:-$SOURCE/../shared}

# Says why and ends the test as skipped.
skip() { echo "SKIPPED: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }

# on RANKS ARGUMENTS...: the driver under mpirun, never longer than five minutes.
on() {
  local ranks=$1
  shift
  timeout 300 mpirun -n "$ranks" "$RELIBRA" "$@"
}

# quietly COMMAND...: shows its output only where it fails.
quietly() {
  "$@" >quiet.log 2>&1 || { cat quiet.log; fail "$*"; }
}

# The Python with h5py and numpy, or an end as skipped.
need_python() {
  for PYTHON in python3 /usr/bin/python3; do
    "$PYTHON" -c 'import h5py, numpy' 2>/dev/null && return
  done
  skip "no python3 with h5py and numpy"
}
# Real records and the independent checker beside the checkout, or an end as skipped.
need_shared() {
  [ -f "$SHARED/tools/verify_plan.py" ] || skip "no $SHARED/tools/verify_plan.py (RELIBRA_SHARED names the folder)"
  need_python
}
verify() { quietly "$PYTHON" "$SHARED/tools/verify_plan.py" "$@"; }
make_dump() { quietly "$PYTHON" "$SHARED/tools/make_dump.py" "$@"; }

# refuses STATUS TEXT RANKS ARGUMENTS...: the driver ends with this status on every rank within a minute, and says
# exactly one line that begins with "relibra:", which holds TEXT.
refuses() {
  local status=$1 text=$2 ranks=$3 found=0
  shift 3
  timeout 60 mpirun -n "$ranks" "$RELIBRA" "$@" >out.log 2>err.log || found=$?
  [ "$found" = "$status" ] || { cat err.log; fail "status $found, expected $status: $*"; }
  [ "$(grep -c '^relibra:' err.log)" = 1 ] || { cat err.log; fail "not one message: $*"; }
  grep '^relibra:' err.log | grep -qF -- "$text" || { cat err.log; fail "no '$text' in the message: $*"; }
}
