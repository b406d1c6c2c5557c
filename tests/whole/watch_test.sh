#!/usr/bin/env bash
# The watcher beside a rollout that writes 20 steps, two of them bad; killed at random moments and started again; told to end.
source "${SOURCE:?}/tests/support/whole.sh"
need_python

shape=(--ep-size 8 --gpus-per-node 4 --effort 20k)
good() { seq 0 19 | grep -vx -e 6 -e 13; }
mkdir made
for step in $(good) 20; do quietly "$RELIBRA" synth -o "made/s$step.h5" --preset tiny --step "$step" --seed 4; done
head -c 3000 made/s5.h5 >made/s6.h5
cp made/s12.h5 made/s13.h5
"$PYTHON" -c "import h5py; f = h5py.File('made/s13.h5', 'r+'); f.attrs['step'] = 13; f['experts'][7, 1, :] = 1"
quietly "$PYTHON" "$SOURCE/tests/whole/files.py" --shard made/s20.h5 made/part

# start RANKS FOLDER ARGUMENTS...: the watcher in the background, its words in watch.log; $job is mpirun.
start() {
  local ranks=$1
  shift
  mpirun -n "$ranks" "$RELIBRA" watch "$@" "${shape[@]}" >out.log 2>>watch.log &
  job=$!
}
# ends STATUS: within a minute, with this status.
ends() {
  local status=0
  for _ in $(seq 600); do
    kill -0 "$job" 2>/dev/null || break
    sleep 0.1
  done
  ! kill -0 "$job" 2>/dev/null || { kill -KILL "$job"; cat watch.log; fail "does not end"; }
  wait "$job" || status=$?
  [ "$status" = "$1" ] || { cat watch.log; fail "status $status, expected $1"; }
}
# appears FILE...: within a minute.
appears() {
  for _ in $(seq 600); do
    local missing=0
    for file in "$@"; do [ -e "$file" ] || missing=1; done
    [ $missing = 0 ] && return
    kill -0 "$job" 2>/dev/null || { cat watch.log; fail "the watcher has ended before there was $*"; }
    sleep 0.1
  done
  cat watch.log
  fail "no $*"
}
# ranks: process ids of the ranks of $job.
ranks() { pgrep -P "$job" -x relibra; }
field() { "$PYTHON" -c "import json; print(json.load(open('$1'))$2)"; }
# waits FILE: within a minute the status says so.
waits() {
  for _ in $(seq 600); do
    [ "$(field "$1" "['state']")" != waiting ] || return 0
    sleep 0.1
  done
  fail "state $(field "$1" "['state']")"
}
# chain FOLDER: the plans of all good steps, each valid for its dump and starting from the one before.
chain() {
  local before=(--first)
  for step in $(good); do
    quietly "$RELIBRA" check "$1/s$step.plan.h5" "made/s$step.h5" "${before[@]}"
    before=(--previous "$1/s$step.plan.h5")
  done
}

# 20 steps, one after the other, the last ones together and out of order; a file without its name yet is no dump.
mkdir dumps
start 3 dumps
cp made/s0.h5 dumps/.s0.h5.tmp
for step in 0 1 2 3 4 5 6 7 8 9 10 11; do
  cp "made/s$step.h5" "dumps/s$step.tmp"
  mv "dumps/s$step.tmp" "dumps/s$step.h5"
  sleep 0.05
done
appears dumps/s11.plan.h5
for pid in $(ranks); do kill -STOP "$pid"; done
for step in 19 17 13 12 14 16 15 18; do cp "made/s$step.h5" "dumps/s$step.h5"; done
for pid in $(ranks); do kill -CONT "$pid"; done
appears dumps/s19.plan.h5
# A step in shards, with markers or without, is planned when its last one is there.
cp made/part0.h5 made/part2.h5 dumps
sleep 0.3
[ ! -e dumps/step-000020.plan.h5 ] || fail "planned two of three shards"
[ "$(field dumps/status.json "['incomplete']")" = "[{'step': 20, 'shards': 2, 'of': 3}]" ] ||
  fail "incomplete: $(field dumps/status.json "['incomplete']")"
mv made/part1.h5 dumps
appears dumps/step-000020.plan.h5
waits dumps/status.json
# One rank alone gets the notice.
kill -USR1 "$(ranks | tail -1)"
ends 0
chain dumps
quietly on 2 check dumps/step-000020.plan.h5 made/s20.h5 --previous dumps/s19.plan.h5
for step in $(good) 20; do
  [ "$(grep -c "^step $step: .*plan.h5 in" watch.log)" = 1 ] || { cat watch.log; fail "step $step was not planned once"; }
done
[ "$(grep -c skipped watch.log)" = 2 ] || { cat watch.log; fail "not two steps skipped"; }
[ "$(field dumps/status.json "['steps_planned']") $(field dumps/status.json "['state']")" = "19 ended" ] || fail "$(cat dumps/status.json)"
field dumps/status.json "['errors']" | grep -q "s6.h5.*layer 1.*" || fail "errors: $(field dumps/status.json "['errors']")"
for step in 6 13; do [ ! -e dumps/s$step.plan.h5 ] || fail "a plan for bad step $step"; done

# Started again it has nothing to do, and says nothing of what is settled; mpirun passes the notice on.
: >watch.log
start 2 dumps
waits dumps/status.json
kill -USR1 "$job"
ends 0
! grep -E "^step|skipped" watch.log || fail "a restart says again what is settled"

# kill -9 of any rank at any moment, and again until all is planned: nothing lost, nothing done twice, no partial file.
: >watch.log
mkdir killed
for step in $(good); do ln -s "../made/s$step.h5" "killed/s$step.h5"; done
for _ in 1 2 3 4 5; do
  start 3 killed --out plans
  sleep "$((RANDOM % 2)).$((RANDOM % 7 + 3))"
  until kill -KILL "$(ranks | shuf -n 1)" 2>/dev/null; do sleep 0.1; done
  wait "$job" || true
done
quietly on 3 watch killed --out plans "${shape[@]}" --once
cat quiet.log >>watch.log
chain plans
for step in $(good); do
  [ "$(grep -c "^step $step: .*plan.h5 in" watch.log)" -le 1 ] || { cat watch.log; fail "step $step was planned again"; }
done
[ -z "$(find plans -name '*partial*')" ] || fail "left after kill -9: $(ls -A plans)"
[ "$(field plans/status.json "['steps_planned']")" = 18 ] || fail "$(field plans/status.json "['steps_planned']") steps planned"

# SIGTERM at any moment leaves no partial file.
for wait in 0.3 0.4 0.5 0.6 0.8; do
  rm -rf ended
  start 2 killed --out ended
  sleep "$wait"
  kill -TERM "$job"
  wait "$job" || true
  [ -z "$(find ended -name '*partial*' 2>/dev/null)" ] || fail "left after SIGTERM: $(ls -A ended)"
done

# Markers, a budget that nothing can keep, and mistakes.
mkdir marked
cp made/s0.h5 made/s1.h5 marked
touch marked/s1.done
quietly on 2 watch marked --done-marker --once --ep-size 8 --gpus-per-node 4 --time-budget 0.1ms --metrics
[ ! -e marked/s0.plan.h5 ] || fail "planned a dump without its marker"
grep -q "budget was missed" quiet.log || fail "no word of the budget that was missed"
quietly on 2 check marked/s1.plan.h5 made/s1.h5 --first
"$RELIBRA" inspect marked/s1.plan.h5 | grep -q "copies: 0.0 a cell" || fail "copies in a plan that missed its budget"
grep -q '"cross_node_pairs"' marked/s1.metrics.json || fail "no metrics"
# One watcher at a time: a second one is refused, one that is killed makes room at once.
mkdir taken
start 2 marked --out taken
appears taken/s1.plan.h5
waits taken/status.json
refuses 2 "another watcher at work: process $(field taken/status.json "['pid']")" 1 watch marked --out taken "${shape[@]}" --once
kill -KILL "$(ranks | tail -1)"
wait "$job" || true
quietly on 2 watch marked --out taken "${shape[@]}" --once
refuses 3 "nowhere" 2 watch nowhere "${shape[@]}" --once
refuses 2 "--ep-size" 2 watch marked --ep-size 4 --gpus-per-node 4 --once
refuses 2 "--gpus-per-node" 2 watch dumps --ep-size 8 --gpus-per-node 3 --once
