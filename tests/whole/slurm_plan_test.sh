#!/usr/bin/env bash
# Planning under a real Slurm of two nodes: slurm/plan.sbatch by srun and by mpirun, by flags and by environment, gives the
# plan that one process gives.
. "$SOURCE/tests/support/whole.sh"
. "$SOURCE/tests/support/slurm.sh"
need_slurm
export RELIBRA RELIBRA_BIND=none
start_slurm 2 4
small=(--nodes=2 --ntasks-per-node=2 --cpus-per-task=1)
job=(--ep-size 8 --gpus-per-node 4)

quietly on 1 synth -o step0.h5 --preset tiny --no-micro-batches
quietly on 1 plan step0.h5 -o expected.h5 "${job[@]}" --micro-batches 8

srun_job=$(submit "${small[@]}" "$SOURCE/slurm/plan.sbatch" "${job[@]}" step0.h5 -- --micro-batches 8)
becomes "$srun_job" COMPLETED 300
cmp expected.h5 step0.plan.h5
grep -q "4 ranks on 2 nodes, 1 threads each, by srun" "$srun_job.out" || fail "not by srun on two nodes: $(cat "$srun_job.out")"

mpirun_job=$(RELIBRA_LAUNCHER=mpirun RELIBRA_DUMPS=step0.h5 RELIBRA_EP_SIZE=8 RELIBRA_GPUS_PER_NODE=4 RELIBRA_PLAN=b.h5 \
  RELIBRA_OPTIONS="--micro-batches 8" submit "${small[@]}" "$SOURCE/slurm/plan.sbatch")
becomes "$mpirun_job" COMPLETED 300
cmp expected.h5 b.h5
grep -q "by mpirun" "$mpirun_job.out" || fail "not by mpirun: $(cat "$mpirun_job.out")"

# A plan carried out on nodes without GPUs.
quietly on 1 plan step0.h5 -o four.h5 --ep-size 4 --gpus-per-node 2 --micro-batches 2
run_job=$(submit "${small[@]}" --gpus-per-node=0 "$SOURCE/slurm/run.sbatch" four.h5 step0.h5 -- --backend cpu --hidden 16 --intermediate 16 --verify --no-timing)
becomes "$run_job" COMPLETED 300
grep -q "^RESULT run .*verified=yes" "$run_job.out" || fail "not verified: $(cat "$run_job.out")"

# The README's lines for a cluster, from the first dump to the check, on a smaller dump. Nodes have as many cores as they ask for.
stop_daemons
start_slurm 2 32
# shellcheck disable=SC2016  # a pattern
sed -n '/^## On a cluster/,/^## Sub/s/^    //p' "$SOURCE/README.md" | grep -E '^(srun|sbatch .*plan\.sbatch|\$RELIBRA)' >readme.sh
[ "$(wc -l <readme.sh)" = 3 ] || fail "the README's lines: $(cat readme.sh)"
sed -i -e 's|1/16|1/512|' -e "s|slurm/plan|$SOURCE/slurm/plan|" -e '/^sbatch/a until [ -e step0.plan.h5 ]; do sleep 0.1; done' readme.sh
mkdir readme
(cd readme && quietly timeout 300 bash -e ../readme.sh && grep -q "every rule holds" quiet.log) || fail "the README's lines: $(cat readme/*.out)"
