#!/usr/bin/env bash
# Jobs that depend on each other, arrays, sweeps and loops under a real Slurm of two nodes.
. "$SOURCE/tests/support/whole.sh"
. "$SOURCE/tests/support/slurm.sh"
need_slurm
export RELIBRA RELIBRA_BIND=none RELIBRA_EP_SIZE=4 RELIBRA_GPUS_PER_NODE=2
start_slurm 2 4 2
two_nodes=(--nodes=2 --ntasks-per-node=2 --cpus-per-task=1)

for step in 0 1 2 3 4; do
  quietly on 1 synth -o "step$step.h5" --preset tiny --sequences 24 --micro-batches 3 --step $step --seed $step
done
for step in 0 1; do quietly on 1 plan step$step.h5 -o expected$step.plan.h5 --ep-size 4 --gpus-per-node 2; done

# An array that submits itself, at most two tasks at once. Plans among the arguments are no steps, a folder holds shards.
mkdir step4
mv step4.h5 step4/only.h5
array=$(bash "$SOURCE/slurm/plan-array.sbatch" --limit 2 --out plans --sbatch "--parsable --output=$WORK/%A-%a.out --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 --time=5" \
  step?.h5 expected?.plan.h5 step4)
most=0
while [ -n "$(squeue -h -t pending,running,completing -j "$array")" ]; do
  now=$(squeue -h -r -t running -j "$array" | wc -l)
  [ "$now" -le "$most" ] || most=$now
done
becomes "$array" COMPLETED 300
[ "$most" = 1 ] || [ "$most" = 2 ] || fail "$most tasks at once under a limit of 2"
[ "$(ls plans)" = "$(printf 'step%s.plan.h5\n' 0 1 2 3 4)" ] || fail "plans of the array: $(ls plans)"
cmp expected0.plan.h5 plans/step0.plan.h5
cmp expected1.plan.h5 plans/step1.plan.h5

# plan -> run, chained by hand: one rank a (pretended) GPU, executed on the host. A dependency on a failed plan is never run.
plan=$(submit "${two_nodes[@]}" "$SOURCE/slurm/plan.sbatch" step0.h5 --out chain.h5)
run=$(submit "${two_nodes[@]}" --gpus-per-node=2 --dependency="afterok:$plan" "$SOURCE/slurm/run.sbatch" --json run.json chain.h5 step0.h5 -- \
  --backend cpu --hidden 16 --intermediate 16 --verify --no-timing)
[ "$(state "$run")" = PENDING ] || [ "$(state "$plan")" = COMPLETED ] || fail "run did not wait for plan"
becomes "$run" COMPLETED 300
grep -q '"passed": true' run.json || fail "the run is not verified: $(head -c 500 run.json)"
[ ! -e run.json.part ]
broken=$(submit "${two_nodes[@]}" "$SOURCE/slurm/plan.sbatch" none.h5 --out none.plan.h5)
never=$(submit "${two_nodes[@]}" --gpus-per-node=2 --dependency="afterok:$broken" --kill-on-invalid-dep=yes "$SOURCE/slurm/run.sbatch" none.plan.h5 none.h5)
ended "$broken" 60
[ "$(state "$broken")" = FAILED ] || fail "a plan of nothing is '$(state "$broken")'"
scontrol show job "$broken" | grep -q "ExitCode=3:0" || fail "status of a plan of nothing: $(scontrol show job "$broken" | grep ExitCode)"
ended "$never" 30
[ "$(state "$never")" = CANCELLED ] || fail "a run after a failed plan is '$(state "$never")'"

# More ranks than GPUs is said before anything starts.
crowded=$(submit --nodes=1 --ntasks-per-node=4 --cpus-per-task=1 --gpus-per-node=2 "$SOURCE/slurm/run.sbatch" chain.h5 step0.h5)
ended "$crowded" 30
grep -q "4 ranks a node, but 2 GPUs" "$crowded.out" || fail "four ranks on two GPUs: $(cat "$crowded.out")"

# A sweep: every case of it in the table, none done twice when it is started again.
sweep() {
  submit "${two_nodes[@]}" "$SOURCE/slurm/bench.sbatch" --preset tiny --out sweep --policies "static relibra" --slots "1 2" \
    --execute "--hidden 16 --intermediate 16 --backend cpu --repeats 1 --layers 0" -- --micro-batches 3
}
bench=$(sweep)
becomes "$bench" COMPLETED 300
[ "$(grep -cE '^\| (static|relibra) \| [12] \| [124] \| 1 \|' sweep/table.md)" = 12 ] || fail "cases of the sweep: $(cat sweep/table.md)"
[ "$(grep -cE '^\| (static|relibra)-[12] \| reference \| 4 \|' sweep/table.md)" = 4 ] || fail "executions: $(cat sweep/table.md)"
diff <(grep '^|' "$bench.out") <(grep '^|' sweep/table.md)
rm sweep/plan-static-1-2.json
touch marker
bench=$(sweep)
becomes "$bench" COMPLETED 300
[ "$(find sweep -name '*.json' -newer marker)" = sweep/plan-static-1-2.json ] || fail "done again: $(find sweep -newer marker)"

# A run and a sweep that are cancelled end with their launcher and ranks. cancelled PATTERN JOB: once ranks are at work.
cancelled() {
  for i in $(seq 600); do ! pgrep -f "^$RELIBRA $1" >/dev/null || break; sleep 0.05; done
  [ "$i" -lt 600 ] || fail "no rank of job $2 started: $(cat "$2.out")"
  sleep 0.3
  scancel "$2"
  ended "$2" 30
  gone "$RELIBRA $1" 5 || fail "left by a cancelled job: $(pgrep -af "$RELIBRA $1")"
}
endless=(--backend cpu --hidden 64 --intermediate 64 --repeats 1000000)
for launcher in srun mpirun; do
  job=$(submit "${two_nodes[@]}" --gpus-per-node=2 "$SOURCE/slurm/run.sbatch" --launcher $launcher chain.h5 step0.h5 -- "${endless[@]}")
  cancelled "run chain.h5" "$job"
  job=$(submit "${two_nodes[@]}" --gpus-per-node=2 "$SOURCE/slurm/run.sbatch" --launcher $launcher --json never.json chain.h5 step0.h5 -- "${endless[@]}")
  cancelled "run chain.h5" "$job"
  ! compgen -G "never.json*" >/dev/null || fail "a document of a cancelled run"
  job=$(submit "${two_nodes[@]}" "$SOURCE/slurm/bench.sbatch" --launcher $launcher --preset tiny --out endless --policies relibra --slots 2 --ranks 4 \
    --execute "${endless[*]}" -- --micro-batches 3)
  cancelled "run endless/" "$job"
  [ "$(echo endless/*.json*)" = endless/plan-relibra-2-4.json ] || fail "results of a cancelled sweep: $(ls endless)"
  rm -r endless
done

# rollout -> plan -> train over three steps, submitted at once. The second rollout fails the first time.
cat >rollout.sbatch <<'END'
#!/bin/bash
[ "$RELIBRA_STEP" != 1 ] || [ -e repaired ] || exit 1
"$RELIBRA" synth -o "$RELIBRA_DUMP" --preset tiny --sequences 24 --micro-batches 3 --step "$RELIBRA_STEP"
echo "rollout $RELIBRA_STEP" >>order
END
cat >train.sbatch <<'END'
#!/bin/bash
[ -f "$RELIBRA_PLAN" ] && [ -f "$RELIBRA_DUMP" ] || exit 1
echo "train $RELIBRA_STEP" >>order
END
loop() {
  SBATCH_OUTPUT=$WORK/%j.out bash "$SOURCE/slurm/rl-loop.sbatch" --steps 0-2 --rollout rollout.sbatch --train train.sbatch \
    --sbatch "${two_nodes[*]}" loop >"$1" || fail "rl-loop: $(cat "$1")"
}
loop submitted
[ "$(grep -c 'is job' submitted)" = 9 ] || fail "not three jobs a step: $(cat submitted)"
while read -r _ _ id; do ended "$id" 60; done <loop/rl-loop.jobs
[ "$(tr '\n' , <order)" = "rollout 0,train 0," ] || fail "after a rollout that fails: $(cat order)"
touch repaired
again=$(submit --nodes=1 --ntasks-per-node=1 "$SOURCE/slurm/rl-loop.sbatch" --steps 0-2 --rollout rollout.sbatch --train train.sbatch \
  --sbatch "${two_nodes[*]} --output=$WORK/%j.out" loop)  # from inside a job
becomes "$again" COMPLETED 300
[ "$(grep -c 'is job' "$again.out")" = 6 ] || fail "not the six jobs that were not done: $(cat "$again.out")"
tail -n 6 loop/rl-loop.jobs | while read -r _ _ id; do becomes "$id" COMPLETED 60; done
[ "$(tr '\n' , <order)" = "rollout 0,train 0,rollout 1,train 1,rollout 2,train 2," ] || fail "order: $(cat order)"
quietly on 2 check loop/step-000002.plan.h5 loop/step-000002.h5 --previous loop/step-000001.plan.h5
quietly on 2 check loop/step-000000.plan.h5 loop/step-000000.h5 --first
loop nothing
[ ! -s nothing ] || fail "a loop that is done: $(cat nothing)"
# Jobs that Slurm no longer knows: the files tell. A plan that is gone is made again, and what followed it.
sed -i -E 's/ ([0-9]+)$/ 9999\1/' loop/rl-loop.jobs
rm loop/step-000002.plan.h5
loop forgotten
[ "$(cut -d' ' -f2-3 forgotten)" = "$(printf '2: plan\n2: train')" ] || fail "after Slurm forgot: $(cat forgotten)"
