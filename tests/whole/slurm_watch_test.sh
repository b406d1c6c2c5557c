#!/usr/bin/env bash
# A watcher beside a trainer in one allocation of two nodes (slurm/rl-loop.sbatch --beside): twenty steps of which two are bad, one
# rank killed; then told by Slurm that the time is up.
. "$SOURCE/tests/support/whole.sh"
. "$SOURCE/tests/support/slurm.sh"
need_slurm
need_python
export RELIBRA RELIBRA_BIND=none RELIBRA_EP_SIZE=8 RELIBRA_GPUS_PER_NODE=4
start_slurm 2 4
two_nodes=(--nodes=2 --ntasks-per-node=2 --cpus-per-task=1)

mkdir made
for step in $(seq 0 19); do
  quietly "$RELIBRA" synth -o "made/step-$(printf %06d "$step").h5" --preset tiny --sequences 32 --no-micro-batches --step "$step" --seed "$step"
done
echo "this is no dump" >made/step-000007.h5
head -c 5000 made/step-000012.h5 >cut.h5 && mv cut.h5 made/step-000012.h5

# The trainer: a dump after the other, each moved to its name when it is whole; waits for every plan but those of bad steps. After
# step 9 it kills a rank of the watcher while the next step is about to be planned.
cat >trainer.sh <<'END'
set -euo pipefail
for step in $(seq 0 19); do
  name=step-$(printf %06d "$step")
  cp "made/$name.h5" "$RELIBRA_DIR/.$name.h5.new"
  mv "$RELIBRA_DIR/.$name.h5.new" "$RELIBRA_DIR/$name.h5"
  [ "$step" != 10 ] || pgrep -f "^$RELIBRA watch $RELIBRA_DIR" | shuf -n 1 | xargs kill -KILL
  [ "$step" = 7 ] || [ "$step" = 12 ] || until [ -e "$RELIBRA_DIR/$name.plan.h5" ]; do sleep 0.05; done
done
END
for launcher in srun mpirun; do
  job=$(submit "${two_nodes[@]}" "$SOURCE/slurm/rl-loop.sbatch" --beside "bash trainer.sh" --launcher $launcher $launcher -- --micro-batches 4)
  becomes "$job" COMPLETED 300
  grep -q "the trainer ended with status 0" "$job.out" || fail "$(cat "$job.out")"
  [ "$(find $launcher -name '*.plan.h5' | wc -l)" = 18 ] || fail "not 18 plans by $launcher: $(ls -A $launcher)"
  [ -z "$(find $launcher -name '.*')" ] || fail "left behind: $(ls -A $launcher)"
  "$PYTHON" - $launcher/status.json <<'PY' || fail "status.json of $launcher: $(cat $launcher/status.json)"
import json, sys
status = json.load(open(sys.argv[1]))
assert status["state"] == "ended", status["state"]
assert status["steps_planned"] == 18, status["steps_planned"]
assert len(status["errors"]) == 2, status["errors"]
PY
  previous=
  for plan in "$launcher"/*.plan.h5; do
    quietly on 1 check "$plan" "${plan%.plan.h5}.h5" ${previous:+--previous "$previous"}
    previous=$plan
  done
done

# Told that the time is up, the watcher leaves and the trainer goes on.
mkdir told
job=$(submit "${two_nodes[@]}" "$SOURCE/slurm/rl-loop.sbatch" --beside "until [ -e enough ]; do sleep 0.1; done" told -- --micro-batches 4)
for i in $(seq 600); do [ ! -e told/status.json ] || break; sleep 0.1; done
scancel --batch --signal=USR1 "$job"
for i in $(seq 600); do ! grep -q '"ended"' told/status.json || break; sleep 0.1; done
[ "$i" -lt 600 ] || fail "the watcher was told and did not end: $(cat told/status.json "$job.out")"
[ "$(state "$job")" = RUNNING ] || fail "the job is '$(state "$job")'"
touch enough
becomes "$job" COMPLETED 60

# Options that can't be right end the job, and the trainer with it.
job=$(submit "${two_nodes[@]}" "$SOURCE/slurm/rl-loop.sbatch" --beside "sleep 1000" wrong -- --no-such-option)
ended "$job" 120
[ "$(state "$job")" = FAILED ] || fail "a job with wrong options is '$(state "$job")'"
grep -q -- "--no-such-option" "$job.out" || fail "$(cat "$job.out")"
