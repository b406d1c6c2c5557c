#!/usr/bin/env bash
# The page of `relibra report`, opened in headless Chromium: it loads without errors and without a network, shows the
# numbers of the documents, and a click or a key opens a cell. What is refused.
. "$SOURCE/tests/support/whole.sh"

quietly on 1 synth -o dump.h5 --preset tiny --sequences 48 --micro-batches 6 --seed 5
quietly on 1 synth -o other.h5 --preset tiny --sequences 48 --micro-batches 6 --seed 6
quietly on 2 plan dump.h5 -o plan.h5 --ep-size 4 --ep-groups 2 --gpus-per-node 2
quietly on 2 plan dump.h5 -o static.h5 --policy static --ep-size 8 --gpus-per-node 4
# A name that would end the element it stands in, were it not escaped.
name="a<script><img src=x> plan.h5"
mv plan.h5 "$name"
on 1 inspect "$name" --json >inspect.json
on 1 report "$name" static.h5 -o alone.html >/dev/null

on 1 report "$name" static.h5 dump.h5 -o page.html >page.log
grep -q "^page.html: 2 plans, with the dump; " page.log || { cat page.log; fail "what it wrote is not said"; }
on 3 report "$name" static.h5 dump.h5 -o page3.html >/dev/null
cmp page.html page3.html || fail "the page depends on the number of ranks"
grep -qE '(src|href)="?(https?:)?//' page.html && fail "the page refers to the network"

refuses 3 "one of another dump" 2 report "$name" other.h5 -o x.html
refuses 2 "at least one plan" 2 report dump.h5 -o x.html
refuses 3 "JSON document" 2 report "$name" --trace dump.h5 -o x.html
refuses 3 "compare --json" 2 report "$name" --compare inspect.json -o x.html
refuses 3 "no-such.h5" 2 report no-such.h5 -o x.html
[ ! -e x.html ] || fail "a page was left behind"

# Kept small: the loads by expert go first.
on 1 report "$name" dump.h5 -o small.html --max-size 1000 >/dev/null 2>small.log
grep -q "6 micro-batches are shown without loads by expert" small.log || { cat small.log; fail "left out in silence"; }
[ "$(stat -c %s small.html)" -lt "$(stat -c %s page.html)" ] || fail "--max-size leaves nothing out"

{ command -v chromium && command -v chromedriver; } >/dev/null || skip "no chromium with chromium-driver: pages not opened"
for PYTHON in python3 /usr/bin/python3; do "$PYTHON" -c 'import selenium' 2>/dev/null && break; done
"$PYTHON" -c 'import selenium' 2>/dev/null || skip "no python3-selenium: pages not opened"

quietly on 1 plan dump.h5 -o four.h5 --ep-size 4 --gpus-per-node 2
quietly on 4 run four.h5 dump.h5 --hidden 8 --intermediate 8 --backend cpu --micro-batches 0-1 --repeats 1 --warm-up 0 --trace trace.json
on 1 inspect four.h5 --json >four.json
on 1 compare dump.h5 --ep-size 4 --gpus-per-node 2 --policies relibra,greedy --model tiny --json >compare.json
on 1 report four.h5 dump.h5 --trace trace.json --compare compare.json -o timeline.html >/dev/null
shots=()
if [ -n "${RELIBRA_SHOTS:-}" ]; then shots=(--shots "$RELIBRA_SHOTS"); fi  # a folder: pictures to look at
open_page() { timeout 300 "$PYTHON" "$SOURCE/tests/whole/report_page.py" "$@" ${shots[@]+"${shots[@]}"} || fail "page $1"; }
open_page page.html inspect.json
open_page alone.html inspect.json --no-dump
open_page timeline.html four.json --timeline --compared compare.json

# 94 layers x 128 micro-batches x 64 ranks.
quietly on 2 synth -o large.h5 --preset qwen3-235b --scale 1/64 --micro-batches 128 --source-ranks 64 --seed 1
quietly on 2 plan large.h5 -o large.plan.h5 --ep-size 64 --gpus-per-node 8 --effort 1000
on 2 report large.plan.h5 large.h5 -o large.html >/dev/null
[ "$(stat -c %s large.html)" -lt 20000000 ] || fail "a large page is of $(stat -c %s large.html) bytes"
on 1 inspect large.plan.h5 --json >large.json
open_page large.html large.json
