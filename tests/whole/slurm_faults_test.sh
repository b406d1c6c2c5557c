#!/usr/bin/env bash
# What happens to jobs: requeued in mid-plan, cancelled at any moment, started by srun and by mpirun. A plan is there as a whole or
# not at all, and nothing else is left.
. "$SOURCE/tests/support/whole.sh"
. "$SOURCE/tests/support/slurm.sh"
need_slurm
export RELIBRA RELIBRA_BIND=none RELIBRA_EP_SIZE=16 RELIBRA_GPUS_PER_NODE=8
start_slurm 2 4
two_nodes=(--nodes=2 --ntasks-per-node=2 --cpus-per-task=1)
quietly on 2 synth -o dump.h5 --preset qwen3-30b --scale 1/128 --no-micro-batches
mkdir out

# planning JOB: waits until ranks of the job are at work.
planning() {
  local i
  for i in $(seq 300); do
    ! pgrep -f "$RELIBRA plan dump.h5 -o out/$1" >/dev/null || return 0
    sleep 0.05
  done
  fail "no rank of $1 started: $(state "$2")"
}

# A search long enough to be interrupted, and the same bytes as without a requeue.
long=(--micro-batches 8 --effort 300000)
quietly on 2 plan dump.h5 -o expected.h5 --ep-size 16 --gpus-per-node 8 "${long[@]}"
for launcher in srun mpirun; do
  job=$(submit "${two_nodes[@]}" "$SOURCE/slurm/plan.sbatch" --launcher $launcher dump.h5 --out out/$launcher.h5 -- "${long[@]}")
  planning $launcher.h5 "$job"
  touch "out/.$launcher.h5.elsewhere.4711.partial"  # what a rank on another node, killed while it wrote, would leave
  requeue "$job"
  becomes "$job" COMPLETED 300
  [ "$(scontrol show job "$job" | grep -o 'Restarts=[0-9]*')" = Restarts=1 ] || fail "not requeued: $(scontrol show job "$job")"
  grep -q "start 2" "$job.out" || fail "no second start: $(cat "$job.out")"
  cmp expected.h5 out/$launcher.h5
  [ "$(ls -A out)" = $launcher.h5 ] || fail "left by the requeued job: $(ls -A out)"
  rm out/*
done

# Cancelled while it starts, counts, plans and writes; ranks must be gone, too.
for launcher in srun mpirun; do
  for wait in 0 0.1 0.2 0.3 0.5; do
    job=$(submit "${two_nodes[@]}" "$SOURCE/slurm/plan.sbatch" --launcher $launcher dump.h5 --out out/cancelled.h5 -- --micro-batches 8 --effort 20000)
    planning cancelled.h5 "$job"
    sleep $wait
    scancel "$job"
    ended "$job" 30
    [ -z "$(find out -type f ! -name cancelled.h5)" ] || fail "left by a cancelled $launcher job after $wait s: $(ls -A out)"
    gone "$RELIBRA plan dump.h5 -o out/cancelled" 20 || fail "ranks of a cancelled $launcher job are left: $(pgrep -af out/cancelled)"
    [ ! -e out/cancelled.h5 ] || quietly on 2 check out/cancelled.h5 dump.h5
    rm -f out/*
  done
done

# Cancelled exactly while the temporary file is there.
caught=0
for _ in $(seq 6); do
  job=$(submit "${two_nodes[@]}" "$SOURCE/slurm/plan.sbatch" dump.h5 --out out/plan.h5 -- --micro-batches 64 --effort 0)
  until compgen -G "out/.plan.h5.*.partial" >/dev/null || [ -e out/plan.h5 ]; do [ "$(state "$job")" != FAILED ] || fail "$(cat "$job.out")"; done
  scancel "$job"
  ended "$job" 30
  ! compgen -G "out/.plan*" >/dev/null || fail "left by a job cancelled while it wrote: $(ls -A out)"
  [ -e out/plan.h5 ] || caught=$((caught + 1))
  rm -f out/*
done
[ -z "$(find . -name '*.lock')" ] || fail "lock files are left: $(find . -name '*.lock')"
echo "cancelled while writing: $caught of 6"
