#!/usr/bin/env bash
# The execution phase on the host: plans of every policy verified, controls, trace, JSON, dry run, emulated ranks, and
# what is refused.
. "$SOURCE/tests/support/whole.sh"
need_python
export CUDA_VISIBLE_DEVICES=  # the host, also where a GPU is
sizes=(--hidden 24 --intermediate 16)

quietly on 1 synth -o dump.h5 --preset tiny --sequences 24 --micro-batches 3 --seed 5
quietly on 1 synth -o other.h5 --preset tiny --sequences 24 --micro-batches 3 --seed 6

# verified RANKS ARGUMENTS...: run says so in its RESULT line.
verified() {
  local ranks=$1
  shift
  on "$ranks" run "$@" --backend cpu --verify --no-timing --layers 1,3 >run.log 2>&1 || { cat run.log; fail "run $*"; }
  grep -q "^RESULT run .*backend=reference verified=yes" run.log || { cat run.log; fail "not verified: run $*"; }
}

policies=$(on 1 plan --help | sed -n 's/^ *\([a-z][a-z-]*\): .*/\1/p')
[ "$(wc -w <<<"$policies")" -ge 4 ] || fail "found only these policies: $policies"
for policy in $policies; do
  quietly on 2 plan dump.h5 -o "$policy.h5" --policy "$policy" --ep-size 4 --gpus-per-node 2
  verified 4 "$policy.h5" dump.h5 "${sizes[@]}"
done
quietly on 2 plan dump.h5 -o groups.h5 --ep-size 2 --ep-groups 2 --gpus-per-node 2
verified 4 groups.h5 dump.h5 "${sizes[@]}"
quietly on 2 plan dump.h5 -o wide.h5 --ep-size 8 --gpus-per-node 8 --replica-slots 3
verified 8 wide.h5 dump.h5 "${sizes[@]}" --max-fan-out 1 --micro-batches 0,2
quietly on 2 plan dump.h5 -o moved.h5 --ep-size 4 --gpus-per-node 2 --previous static.h5
verified 4 moved.h5 dump.h5 "${sizes[@]}" --previous static.h5
grep -q "weights and both moments are the same bits" run.log || fail "reordering is not said to be right"

# Measured, with controls, a trace and a document.
on 4 run relibra.h5 dump.h5 "${sizes[@]}" --backend cpu --baseline --micro-batches 0-1 --repeats 3 \
  --trace trace.json --json >run.json 2>run.log || { cat run.log; fail "run --json"; }
"$PYTHON" - <<'PY'
import json
run = json.load(open("run.json"))
assert [v["name"] for v in run["variants"]] == ["plan", "static", "balanced"], run["variants"]
for v in run["variants"]:
    assert len(v["visits"]) == 2 * 4 * 2 and len(v["step_repeats"]) == 3
    for visit in v["visits"]:
        assert all(len(visit[p]) == 4 and min(visit[p]) >= 0 for p in ("dispatch", "compute", "combine", "push", "wait"))
    loads = [[r["assignments"] for r in cell["ranks"]] for cell in v["schedule"]]
    sums = [sum(l) for l in loads]
    assert v["name"] == "plan" or sums == plan_sums, "a control computes other assignments than the plan"
    plan_sums = sums
    if v["name"] == "balanced":
        assert all(max(l) - min(l) <= 1 for l in loads), loads
assert run["variants"][0]["load_skew"] < run["variants"][1]["load_skew"]
events = json.load(open("trace.json"))["traceEvents"]
tracks = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
assert len(tracks) == 3 * 4 * 2, tracks
spans = [e for e in events if e["ph"] == "X"]
assert {(e["pid"], e["tid"]) for e in spans} <= tracks and all(e["dur"] > 0 and e["ts"] >= 0 for e in spans)
assert {"dispatch", "experts", "combine", "weights of copies"} <= {e["name"] for e in spans}
PY
on 4 run relibra.h5 dump.h5 "${sizes[@]}" --backend cpu --baseline --micro-batches 0 --repeats 1 >run.log 2>&1 ||
  { cat run.log; fail "run --baseline"; }
grep -q "times as fast as static" run.log || fail "no comparison with the controls"

# One job plans and executes.
on 4 plan dump.h5 -o both.h5 --ep-size 4 --gpus-per-node 2 --execute --hidden 24 --intermediate 16 --backend cpu \
  --verify --no-timing --run-micro-batches 1 >run.log 2>&1 || { cat run.log; fail "plan --execute"; }
grep -q "^RESULT run .*verified=yes" run.log || { cat run.log; fail "plan --execute is not verified"; }
cmp both.h5 relibra.h5 || fail "plan --execute wrote another plan"

# Fewer processes: a dry run, and emulated ranks.
on 1 run wide.h5 dump.h5 "${sizes[@]}" --dry-run >run.log 2>&1 || { cat run.log; fail "--dry-run"; }
[ "$(grep -cE '^ +[0-7]( +[0-9]+){11}$' run.log)" = 8 ] || { cat run.log; fail "the schedule has not a line a rank"; }
on 2 run wide.h5 dump.h5 "${sizes[@]}" --emulate --baseline --backend cpu --micro-batches 0 --repeats 2 >run.log 2>&1 ||
  { cat run.log; fail "--emulate"; }
grep -q "^RESULT run .*emulated=yes .*of_balanced=" run.log || { cat run.log; fail "no result of emulated ranks"; }

# Refusals: status, one message, on all ranks.
refuses 2 "expected 8, the plan's ranks" 4 run wide.h5 dump.h5 "${sizes[@]}"
refuses 2 "a model, or both sizes" 4 run relibra.h5 dump.h5 --hidden 24
refuses 2 "--layers" 4 run relibra.h5 dump.h5 "${sizes[@]}" --layers 0-9
refuses 2 "--micro-batches" 4 run relibra.h5 dump.h5 "${sizes[@]}" --micro-batches x
refuses 2 "neither --verify nor --previous" 2 run wide.h5 dump.h5 "${sizes[@]}" --emulate --verify
refuses 2 "--execute" 2 plan dump.h5 -o x.h5 --ep-size 4 --gpus-per-node 2 --execute "${sizes[@]}"
[ ! -e x.h5 ] || fail "a plan was made although it cannot be executed"
refuses 3 "a plan of this dump" 4 run relibra.h5 other.h5 "${sizes[@]}"
refuses 3 "--previous" 4 run moved.h5 dump.h5 "${sizes[@]}" --previous relibra.h5
refuses 4 "memory: expected" 4 run relibra.h5 dump.h5 "${sizes[@]}" --backend cpu --memory-limit 10k
head -c $(($(stat -c %s relibra.h5) / 2)) relibra.h5 >short.h5
refuses 3 "short.h5" 4 run short.h5 dump.h5 "${sizes[@]}"
"$PYTHON" - <<'PY'
import h5py, shutil
shutil.copy("relibra.h5", "split.h5")
with h5py.File("split.h5", "r+") as f:
    tokens = f["split/tokens"][...]
    tokens[0] += 1
    f["split/tokens"][...] = tokens
PY
refuses 3 "as the dump has" 4 run split.h5 dump.h5 "${sizes[@]}"

# A rank that is killed in mid-run ends the job within 10 s, without a core file.
ulimit -c unlimited
mpirun -n 4 "$RELIBRA" run relibra.h5 dump.h5 "${sizes[@]}" --backend cpu --repeats 100000 >run.log 2>err.log &
job=$!
for _ in $(seq 300); do grep -q "measuring" err.log && break || sleep 0.1; done
grep -q "measuring" err.log || { cat err.log; fail "the run to be killed did not start"; }
victim=$(pgrep -P "$job" -f "run relibra.h5" | sed -n 3p)
kill -KILL "$victim"
since=$SECONDS status=0
wait "$job" || status=$?
[ "$status" != 0 ] || fail "status 0 although a rank was killed"
[ $((SECONDS - since)) -le 10 ] || fail "it took $((SECONDS - since)) s to end"
! pgrep -f "$RELIBRA run relibra.h5 dump.h5" >/dev/null || fail "ranks are left behind"
[ -z "$(find . -name 'core*')" ] || fail "a core file"
