#!/usr/bin/env bash
# The main job on an example: a small synthetic dump, planned with 4 ranks, checked, and shown before and after.
#
#   scripts/demo.sh RELIBRA FOLDER
set -euo pipefail
relibra=$(realpath "$1")
mkdir -p "$2" && cd "$2"
# As root in a container, and on fewer cores than ranks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
       OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1

run() {
  echo
  echo "\$ $*" | sed "s|$relibra|relibra|"
  "$@"
}
run mpirun -n 4 "$relibra" synth -o step0.h5 --preset qwen3-30b --scale 1/64 --no-micro-batches --seed 1
run mpirun -n 4 "$relibra" plan step0.h5 -o step0.plan.h5 --ep-size 16 --gpus-per-node 8 --micro-batches 16
run mpirun -n 4 "$relibra" check step0.plan.h5 step0.h5
echo
echo "The dump and the plan are in $PWD."
