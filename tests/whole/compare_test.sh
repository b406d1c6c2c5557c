#!/usr/bin/env bash
# Policies side by side: JSON that does not depend on the number of ranks and agrees with `plan --metrics`, CSV, tables,
# a sweep, a cluster from a file, calibration on a run, and what is refused.
. "$SOURCE/tests/support/whole.sh"
need_python

quietly on 1 synth -o dump.h5 --preset tiny --seed 5
shape=(--ep-size 4 --gpus-per-node 2 --model tiny --effort 2000)
for ranks in 1 2 3; do
  on $ranks compare dump.h5 "${shape[@]}" --move-cost 0 --cluster hopper-ib400,ampere-ib200 --network 0.5,1 --json >$ranks.json
done
for policy in static relibra greedy; do
  quietly on 2 plan dump.h5 -o plan.h5 --ep-size 4 --gpus-per-node 2 --effort 2000 --policy $policy --metrics $policy.json
done
"$PYTHON" - <<'END'
import json
documents = [json.load(open(f"{ranks}.json")) for ranks in (1, 2, 3)]
for document in documents:
    for comparison in document["comparisons"]:
        for policy in comparison["policies"]:
            policy.pop("planning_seconds", None)
assert documents[0] == documents[1] == documents[2], "the document depends on the number of ranks"
document = documents[0]
assert [c["name"] for c in document["clusters"]] == ["hopper-ib400, network x 0.5", "hopper-ib400",
                                                     "ampere-ib200, network x 0.5", "ampere-ib200"]
assert [c["cluster"] for c in document["comparisons"]] == [c["name"] for c in document["clusters"]]
policies = {p["policy"]: p for p in document["comparisons"][0]["policies"]}
assert list(policies)[0] == "static" and list(policies)[-1] == "balanced"
for name in ("static", "relibra", "greedy"):
    plan = json.load(open(f"{name}.json"))["overall"]
    for field in ("skew", "node_skew", "over_mean_bound", "over_node_bound", "over_replica_bound", "pairs_busiest",
                  "cross_node_pairs"):
        assert policies[name][field] == plan["after"][field], (name, field)
    for field in ("copies", "fan_out"):
        assert policies[name][field] == plan[field], (name, field)
    assert policies[name]["moves"]["experts"] == plan["moves"]["experts"]

# The slowest cell's terms by hand, and the step as the sum of its terms.
model = document["model"]
parameters = 3 * model["hidden"] * model["intermediate"]
for cluster, comparison in zip(document["clusters"], document["comparisons"]):
    at_static = comparison["policies"][0]["step"]["seconds"]
    for policy in comparison["policies"]:
        if "refusal" in policy:
            continue
        step = policy["step"]
        assert abs(sum(step["terms"].values()) - step["seconds"]) < 1e-9 * step["seconds"]
        assert abs(step["over_static"] * step["seconds"] - at_static) < 1e-9 * at_static
        cell = step["slowest_cell"]
        rows = max(a + cluster["gemm_half_rows"] * e for a, e in zip(cell["rank_assignments"], cell["rank_experts"]))
        compute = 3 * 2 * parameters * rows / (cluster["flops"] * cluster["gemm_share"])
        assert abs(compute - cell["seconds"]["compute"]) < 1e-9 * compute
        token = model["hidden"] * model["combine_bytes"]
        one = cluster["latency_seconds"] + token * max(
            cell["pairs"] / (2 * cluster["network_bytes_per_second"] * cluster["network_share"]),
            max(cell["rank_assignments"]) / (cluster["nvlink_bytes_per_second"] * cluster["nvlink_share"]))
        assert abs(2 * one - cell["seconds"]["combine"]) < 1e-9 * one
END

# A plan at the prices of a cluster moves less where the network is slow; a given price goes before.
quietly on 2 synth -o next.h5 --preset tiny --seed 6
quietly on 2 plan dump.h5 -o plan.h5 --ep-size 4 --gpus-per-node 2 --effort 2000
for cluster in fast slow; do
  network=$([ $cluster = fast ] && echo 50e15 || echo 50e6)
  echo "{\"name\": \"$cluster\", \"base\": \"hopper-ib400\", \"network_bytes_per_second\": $network}" >$cluster.json
  on 2 plan next.h5 -o next.plan.h5 --ep-size 4 --gpus-per-node 2 --previous plan.h5 --model tiny --cluster $cluster.json --json >next-$cluster.json
done
on 2 plan next.h5 -o next.plan.h5 --ep-size 4 --gpus-per-node 2 --previous plan.h5 --model tiny --cluster slow.json --move-cost 0 --json \
  >next-given.json
"$PYTHON" - <<'END'
import json
fast, slow, given = (json.load(open(f"next-{name}.json"))["overall"]["moves"]["experts"] for name in ("fast", "slow", "given"))
assert slow == 0 and fast > 0 and given > 0, (fast, slow, given)
END
refuses 2 "--model" 2 plan dump.h5 -o x.h5 --ep-size 4 --gpus-per-node 2 --cluster hopper-ib400

on 2 compare dump.h5 "${shape[@]}" --policies relibra >table.txt
grep -q "^relibra  .*%$" table.txt && grep -q "^balanced .*100.0%$" table.txt || { cat table.txt; fail "no table"; }
! grep -q "^greedy" table.txt || fail "a policy that was not asked for"
on 2 compare dump.h5 "${shape[@]}" --policies relibra --csv >table.csv
[ "$(wc -l <table.csv)" = 4 ] || { cat table.csv; fail "not a line for each of three policies"; }
[ "$(awk -F, '{print NF}' table.csv | sort -u)" = "$(head -1 table.csv | awk -F, '{print NF}')" ] || fail "ragged CSV"
on 2 compare dump.h5 "${shape[@]}" --policies relibra --sweep ep-size=4,8 replica-slots=0,1,2 >sweep.txt
[ "$(grep -c "^[48] x 1, 2 a node  *[012]  relibra  *[0-9.]*  *[0-9.]*  *[0-9.]* .*%$" sweep.txt)" = 6 ] ||
  { cat sweep.txt; fail "not six points"; }
grep -q "^fewest slots within 1 %" sweep.txt || fail "no answer"

# A run on this machine, and the cluster that comes out of it as a file.
quietly on 2 plan dump.h5 -o plan.h5 --ep-size 4 --gpus-per-node 2
on 4 run plan.h5 dump.h5 --model tiny --backend cpu --baseline --micro-batches 0,1 --json >run.json 2>run.log || { cat run.log; fail run; }
on 1 compare dump.h5 "${shape[@]}" --policies static --calibrate run.json --json >calibrated.json
"$PYTHON" - <<'END'
import json
document = json.load(open("calibrated.json"))
cluster = document["clusters"][0]
assert document["calibration"]["samples"] == 3 * 2 * 2 * 4 * 4  # variants, micro-batches, directions, layers, ranks
assert 0 < cluster["gemm_share"] < 0.1 and cluster["name"] == "hopper-ib400, calibrated"
json.dump(cluster, open("here.json", "w"))
END
on 1 compare dump.h5 "${shape[@]}" --policies static --cluster here.json --json >again.json
"$PYTHON" - <<'END'
import json
first, again = (json.load(open(f"{name}.json")) for name in ("calibrated", "again"))
assert first["clusters"] == again["clusters"]
END

refuses 2 "one of" 2 compare dump.h5 "${shape[@]}" --cluster abacus
refuses 2 "--preset" 2 compare dump.h5 --ep-size 4 --gpus-per-node 2 --model abacus
refuses 2 "expected numbers from 1" 2 compare dump.h5 "${shape[@]}" --sweep ep-size=0
refuses 3 "absent.json" 2 compare dump.h5 "${shape[@]}" --cluster absent.json
refuses 3 "a result of relibra run --json" 2 compare dump.h5 "${shape[@]}" --calibrate here.json
refuses 2 "--policies" 2 compare dump.h5 "${shape[@]}" --policies abacus
