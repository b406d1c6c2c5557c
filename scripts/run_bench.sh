#!/usr/bin/env bash
# Benchmarks of the execution phase on this machine, as ratios inside one run:
#
#   scripts/run_bench.sh RELIBRA
#
# 1. Two ranks on two cores, hidden 1024, intermediate 2048, some 400 rows an expert, so that computing counts and not
#    reading weights: the plan against static placement and an ideal balance.
# 2. What 32 ranks (4 nodes of 8) compute under a plan, carried in turn by two processes: hidden 512, intermediate 1024.
# The dump of the second is make_dump.py's ep32 where the shared tools lie beside the checkout (RELIBRA_SHARED), else
# one of the same workload by synth.
set -euo pipefail
relibra=$(realpath "${1:?the program}")
shared=${RELIBRA_SHARED:-$(cd "$(dirname "$0")/.." && pwd)/../shared}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
       OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1

# field NAME FILE: a value of the RESULT line.
field() { grep '^RESULT' "$2" | grep -oE "(^| )$1=[^ ]+" | cut -d= -f2; }
# judge WHAT VALUE LEAST
judge() { awk -v what="$1" -v value="$2" -v least="$3" \
  'BEGIN { printf "%s %.3f, wanted at least %s: %s\n", what, value, least, (value >= least ? "reached" : "NOT reached") }'; }

echo "-- two ranks, hidden 1024, intermediate 2048"
mpirun -n 2 "$relibra" synth -o two.h5 --preset olmoe --sequences 64 --micro-batches 4 --scale 1/32 --seed 1 >/dev/null
mpirun -n 2 "$relibra" plan two.h5 -o two.plan.h5 --ep-size 2 --gpus-per-node 2 >/dev/null
mpirun -n 2 "$relibra" run two.plan.h5 two.h5 --backend cpu --hidden 1024 --intermediate 2048 --layers 0,8 \
  --micro-batches 0 --baseline 2>/dev/null | tee two.log
judge "plan, of balanced:" "$(field of_balanced two.log)" 0.95

echo "-- compute of 32 ranks in turn, hidden 512, intermediate 1024"
if [ -f "$shared/tools/make_dump.py" ] && python3 -c 'import h5py' 2>/dev/null; then
  python3 "$shared/tools/make_dump.py" many.h5 --preset ep32 --layers 3
elif [ -f "$shared/tools/make_dump.py" ] && /usr/bin/python3 -c 'import h5py' 2>/dev/null; then
  /usr/bin/python3 "$shared/tools/make_dump.py" many.h5 --preset ep32 --layers 3
else
  echo "no $shared/tools/make_dump.py: the same workload by synth"
  mpirun -n 2 "$relibra" synth -o many.h5 --preset qwen3-30b --scale 1/16 --source-ranks 32 --seed 1 >/dev/null
fi
mpirun -n 2 "$relibra" plan many.h5 -o many.plan.h5 --ep-size 32 --gpus-per-node 8 >/dev/null
mpirun -n 2 "$relibra" run many.plan.h5 many.h5 --backend cpu --emulate --baseline --hidden 512 --intermediate 1024 \
  --layers 0-2 --micro-batches 0-3 --warm-up 0 2>/dev/null | tee many.log
judge "plan, of balanced:" "$(field of_balanced many.log)" 0.95
judge "static, over the plan:" "$(field speedup many.log)" 1.8
