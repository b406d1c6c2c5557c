#!/usr/bin/env bash
# Plan quality on the reference workload, measured by the independent checker:
#
#   scripts/quality.sh RELIBRA SHARED [PRESETS] [SEEDS]
#
# RELIBRA is the driver; SHARED holds tools/make_dump.py and tools/verify_plan.py. Prints one Markdown row a preset, seed
# and plan: skew mean and 99th percentile, node skew, copies a cell, (token, node) pairs a token at the busiest node.
set -euo pipefail
relibra=$(realpath "$1") shared=$(realpath "$2") presets=${3:-ep16 ep32 ep64} seeds=${4:-1 2 3}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
       OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ranks=$(nproc)
python=python3
"$python" -c 'import h5py' 2>/dev/null || python=/usr/bin/python3

declare -A size=([ep16]=16 [ep32]=32 [ep64]=64)
# measure PRESET SEED NAME DUMP OPTIONS...
measure() {
  local preset=$1 seed=$2 name=$3 dump=$4
  shift 4
  mpirun -n "$ranks" "$relibra" plan "$dump" -o plan.h5 --ep-size "${size[$preset]}" --gpus-per-node 8 "$@" >plan.log 2>&1 ||
    { cat plan.log >&2; exit 1; }
  "$python" "$shared/tools/verify_plan.py" plan.h5 "$dump" --json >plan.json
  "$python" - "$preset" "$seed" "$name" <<'END'
import json, sys
r = json.load(open("plan.json"))
assert r["valid"]
print("| %s | %s | %s | %.4f | %.4f | %.4f | %.1f | %.2f |" % (*sys.argv[1:], r["skew"]["mean"], r["skew"]["p99"], r["node_skew"]["mean"],
      r["copies"]["mean"], r["pairs_busiest"]["mean"]), flush=True)
END
}

echo "| preset | seed | plan | skew mean | skew p99 | node skew | copies | pairs |"
echo "|---|---|---|---|---|---|---|---|"
for preset in $presets; do
  for seed in $seeds; do
    "$python" "$shared/tools/make_dump.py" dump.h5 --preset "$preset" --seed "$seed"
    measure "$preset" "$seed" "static" dump.h5 --policy static
    measure "$preset" "$seed" "toy: greedy" dump.h5 --policy greedy
    measure "$preset" "$seed" "relibra" dump.h5
    measure "$preset" "$seed" "relibra, tolerance 0" dump.h5 --tolerance 0
    measure "$preset" "$seed" "relibra, tolerance 0, 2M moves" dump.h5 --tolerance 0 --effort 2000000
    "$python" "$shared/tools/make_dump.py" dump.h5 --preset "$preset" --seed "$seed" --no-src
    measure "$preset" "$seed" "relibra, tolerance 0, sources placed" dump.h5 --tolerance 0
  done
done
