#!/usr/bin/env bash
# The main job on an example: a small synthetic dump; one job of 4 ranks that plans it and executes the plan, verified and
# measured beside static and balanced placement; the plan checked, and shown on a page.
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
run mpirun -n 4 "$relibra" synth -o step0.h5 --preset tiny --no-micro-batches --seed 1
run mpirun -n 4 "$relibra" plan step0.h5 -o step0.plan.h5 --ep-size 4 --gpus-per-node 4 --micro-batches 8 \
  --execute --verify --baseline --hidden 64 --intermediate 128 --run-micro-batches 0-1 --repeats 3
run mpirun -n 4 "$relibra" check step0.plan.h5 step0.h5
run mpirun -n 4 "$relibra" report step0.plan.h5 step0.h5 -o step0.html
cat <<END

The dump, the plan and step0.html, the plan to look at in a browser, are in $PWD. The execution ran as 4 processes on
$(nproc --all) cores: with fewer cores than processes its times and waiting are those of processes that share a core, and the loads are
what to look at.
END
