#!/usr/bin/env bash
# A dump, its plan, the next step's plan that starts from it, and both checked. Run it in an empty folder with `relibra` in the PATH.
set -euo pipefail
# As root in a container, and on fewer cores than ranks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
       OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1

# The training job: 8 ranks in one expert-parallel group on two nodes of 4 GPUs; 8 micro-batches.
job=(--ep-size 8 --gpus-per-node 4 --micro-batches 8)

mpirun -n 2 relibra synth -o step0.h5 --preset tiny --no-micro-batches
mpirun -n 2 relibra plan step0.h5 -o step0.plan.h5 "${job[@]}"
mpirun -n 2 relibra check step0.plan.h5 step0.h5 --first

mpirun -n 2 relibra synth -o step1.h5 --preset tiny --no-micro-batches --step 1
mpirun -n 2 relibra plan step1.h5 -o step1.plan.h5 "${job[@]}" --previous step0.plan.h5
mpirun -n 2 relibra check step1.plan.h5 step1.h5 --previous step0.plan.h5
