#!/bin/bash
# Runs every benchmark of a build: bench.sh BIN_FOLDER. Each prints figures as ratios inside its own run.
set -euo pipefail
bin=${1:?folder of the programs}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
for program in "$bin"/*_bench; do
  echo "== $(basename "$program")"
  "$program"
done
echo "== run_bench"
bash "$(dirname "$0")/run_bench.sh" "$bin/relibra"
