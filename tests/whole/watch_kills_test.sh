#!/usr/bin/env bash
# 20 steps through a watcher of which a random rank is killed (SIGKILL) at random moments, and which is started again each time: on one
# host, and on two emulated ones. No step may be lost or planned again, and every plan must be the bytes of a watcher left in peace.
# RELIBRA_TEST_KILLS: how many kills in each of the two, by default 4.
source "${SOURCE:?}/tests/support/whole.sh"

kills=${RELIBRA_TEST_KILLS:-4} steps=20
shape=(--ep-size 8 --gpus-per-node 4 --effort 3M)  # some tenths of a second a step, so that most kills fall into one
mkdir made
for step in $(seq -w 0 $((steps - 1))); do
  quietly "$RELIBRA" synth -o "made/step-$step.h5" --preset tiny --step "$((10#$step))" --seed 5
done
milliseconds() { date +%s%3N; }
began=$(milliseconds)
quietly on 4 watch made --out expected "${shape[@]}" --once
undisturbed=$(($(milliseconds) - began))

# watch_in MODE ARGUMENTS...: runs the watcher of four ranks over the dumps of MODE.
watch_in() {
  local hosts=()
  [ "$1" = one-host ] ||
    hosts=(--mca plm rsh --mca plm_rsh_agent "bash $SOURCE/tests/support/another_host.sh" --mca plm_rsh_no_tree_spawn 1 -H "n1:2,n2:2")
  mpirun "${hosts[@]}" -n 4 "$RELIBRA" watch "$WORK/$1/dumps" --out "$1/plans" "${shape[@]}" "${@:2}" >>"$1/out.log" 2>>"$1/watch.log"
}
ranks_of() { pgrep -f "^$RELIBRA watch $WORK/$1/dumps "; }

# Kills one rank after a random time, in which a watcher starts and plans a step or two. Plans that are there must be the same files later.
kill_one() {
  local mode=$1 moment job
  watch_in "$mode" &
  job=$!
  moment=$(((RANDOM * 32768 + RANDOM) % (1000 + 2 * undisturbed / kills)))
  sleep "$((moment / 1000)).$(printf %03d $((moment % 1000)))"
  for _ in $(seq 300); do
    # shellcheck disable=SC2046  # a process id, or nothing yet
    ! kill -KILL $(ranks_of "$mode" | shuf -n 1) 2>/dev/null || break
    sleep 0.1
  done
  # mpirun itself can hang where a rank was killed while all of them start: it is ended then, with what it left.
  for _ in $(seq 300); do kill -0 "$job" 2>/dev/null || break; sleep 0.1; done
  if kill -0 "$job" 2>/dev/null; then
    pkill -KILL -P "$job" || true
    ranks_of "$mode" | xargs -r kill -KILL || true
  fi
  wait "$job" && fail "the watcher ended as if no rank had been killed"
  for _ in $(seq 100); do [ -n "$(ranks_of "$mode")" ] || break; sleep 0.1; done
  [ -z "$(ranks_of "$mode")" ] || fail "ranks are left after one was killed: $(ranks_of "$mode")"
  ! grep -qs '"state": "planning"' "$mode/plans/status.json" || in_planning=$((in_planning + 1))
  ! compgen -G "$mode/plans/*.plan.h5" >/dev/null || stat -c '%n %i %y' "$mode"/plans/*.plan.h5 >>"$mode/seen"
}

# judge MODE: counts what is wrong with its plans.
judge() {
  local step plan again lost=0 invalid=0 unequal=0 before=(--first)
  stat -c '%n %i %y' "$1"/plans/*.plan.h5 >>"$1/seen"
  again=$(sort -u "$1/seen" | awk '{ print $1 }' | uniq -d | wc -l)
  for step in $(seq -w 0 $((steps - 1))); do
    plan=$1/plans/step-$step.plan.h5
    [ -f "$plan" ] || { lost=$((lost + 1)); continue; }
    "$RELIBRA" check "$plan" "made/step-$step.h5" "${before[@]}" >check.log 2>&1 || { cat check.log; invalid=$((invalid + 1)); }
    cmp "$plan" "expected/step-$step.plan.h5" || unequal=$((unequal + 1))
    before=(--previous "$plan")
  done
  echo "$1: $kills kills, $in_planning of them while a step was planned; of $steps steps $lost lost, $again planned again, $invalid invalid, $unequal unequal"
  [ "$lost $again $invalid $unequal" = "0 0 0 0" ] || { cat "$1/watch.log"; fail "$1"; }
  grep -q "\"steps_planned\": $steps," "$1/plans/status.json" || fail "$(grep steps_planned "$1/plans/status.json"), expected $steps"
  [ -z "$(find "$1" -name '*partial*')" ] || fail "left after kill -9: $(ls -A "$1/plans")"
}

survive() {
  local mode=$1
  in_planning=0
  mkdir -p "$mode/dumps"
  ln -s "$WORK"/made/step-*.h5 "$mode/dumps"
  for _ in $(seq "$kills"); do kill_one "$mode"; done
  watch_in "$mode" --once || { cat "$mode/watch.log"; fail "the last watcher"; }
  judge "$mode"
}

survive one-host
if unshare -m -u bash -c 'hostname n1 && mount -t tmpfs tmpfs /dev/shm' 2>/dev/null; then
  survive two-hosts
else
  echo "two emulated hosts are left out: this machine gives no namespaces of their own"
fi
