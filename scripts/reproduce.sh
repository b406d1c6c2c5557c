#!/usr/bin/env bash
# The papers' conditions, modelled (docs/reproduction.md):
#
#   scripts/reproduce.sh RELIBRA [SCALE] [CASES]
#
# RELIBRA is the driver, SCALE the share of the papers' tokens (default 1/16; each token then stands for as many more),
# CASES of model:EP size, or of ep16, ep32, ep64, the workloads of make_dump.py where the shared tools lie beside the checkout
# (RELIBRA_SHARED). Prints Markdown tables: where which policy is least, policies of every case on hopper-ib400, and the least steps
# on every cluster at half, once and twice its network, in seconds. All values of a case are left in FOLDER/MODEL-EP.csv, FOLDER from the environment
# (default: a temporary one).
set -euo pipefail
relibra=$(realpath "$1") scale=${2:-1/16}
shared=${RELIBRA_SHARED:-$(cd "$(dirname "$0")/.." && pwd)/../shared}
presets=
[ ! -f "$shared/tools/make_dump.py" ] || presets="ep16:16 ep32:32 ep64:64"
cases=${3:-qwen3-30b:16 glm4.5-air:16 glm4.5-air:32 qwen3-235b:32 deepseek-v3:64 $presets}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
       OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$(realpath "${FOLDER:-$work}")
cd "$work"
factor=$(python3 -c "from fractions import Fraction; print(float(1 / Fraction('$scale')))")
clusters=$("$relibra" compare --help | grep -o '[a-z0-9]*-ib[0-9]*' | sort -u | grep -v hopper-ib400 | tr '\n' ',')
for case in $cases; do
  model=${case%:*} size=${case#*:}
  forming=(--micro-batches $((size == 64 ? 64 : 32)))
  shape=$model
  case $model in
    ep16) shape=qwen3-30b ;;
    ep32) shape=qwen3-235b ;;
    ep64) shape=deepseek-v3 ;;
  esac
  if [ "$shape" != "$model" ]; then  # it has micro-batches
    forming=()
    [ -f "$model.h5" ] || /usr/bin/python3 "$shared/tools/make_dump.py" "$model.h5" --preset "$model" >&2
  fi
  [ -f "$model.h5" ] || mpirun -n 2 "$relibra" synth -o "$model.h5" --preset "$model" --scale "$scale" --seed 1 --no-micro-batches >&2
  mpirun -n 2 "$relibra" compare "$model.h5" --ep-size "$size" --gpus-per-node 8 "${forming[@]}" --model "$shape" \
    --token-factor "$factor" --cluster "hopper-ib400,${clusters%,}" --network 1,0.5,2 --csv >"$folder/$model-$size.csv"
  echo "$folder/$model-$size.csv" >>cases
done
mapfile -t tables <cases
python3 - "${tables[@]}" <<'END'
import csv, sys

# Without groups of experts eplb is global: its copies leave the node.
IN_NODE = ("static", "relibra", "relibra-reorder", "relibra-replicate", "relibra-split", "greedy", "lplb")
tables = {path.split("/")[-1][:-4]: list(csv.DictReader(open(path))) for path in sys.argv[1:]}


def others(points, best):
    """Policies that are least where `best` is not, on how many points, and by how much at most."""
    found = {}
    for steps in points:
        least = min(steps, key=steps.get)
        if least != best:
            found.setdefault(least, []).append(steps[best] / steps[least] - 1)
    return ", ".join(f"`{p}` on {len(by)}, by up to {100 * max(by):.2f} %" for p, by in found.items()) or "none"


print("| case | least in the node | else | least of all | else |")
print("|---|---|---|---|---|")
for name, rows in tables.items():
    points = [{r["policy"]: float(r["step"]) for r in rows if r["cluster"] == cluster and r["policy"] != "balanced"}
              for cluster in dict.fromkeys(r["cluster"] for r in rows)]
    inside = [{p: step for p, step in steps.items() if p in IN_NODE} for steps in points]
    won = [sum(min(steps, key=steps.get) == best for steps in some)
           for best, some in (("relibra", inside), ("relibra-hybrid", points))]
    print(f"| {name} | `relibra` {won[0]} of {len(points)} | {others(inside, 'relibra')} "
          f"| `relibra-hybrid` {won[1]} of {len(points)} | {others(points, 'relibra-hybrid')} |")
for name, rows in tables.items():
    first = rows[0]["cluster"]
    print(f"\n### {name}, {first}\n")
    print("| policy | skew mean / p99 | node skew | pairs | copies | slots | moves | push, moves | step | over static | of balanced |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for r in (r for r in rows if r["cluster"] == first):
        v = {k: float(x) for k, x in r.items() if k not in ("policy", "cluster")}
        print("| `%s` | %.4f / %.3f | %.4f | %.2f | %.1f | %.2f GB | %d | %.2f s, %.2f s | %.2f s | %.3f | %.1f %% |" % (
            r["policy"], v["skew_mean"], v["skew_p99"], v["node_skew"], v["pairs_busiest"], v["copies"], v["slot_bytes"] / 1e9,
            v["moves"], v["push"], v["moving"], v["step"], v["over_static"], 100 * v["of_balanced"]))
    print("\n| cluster | `static` | least | second | third | `relibra` over least |")
    print("|---|---|---|---|---|---|")
    for cluster in dict.fromkeys(r["cluster"] for r in rows):
        steps = {r["policy"]: float(r["step"]) for r in rows if r["cluster"] == cluster and r["policy"] != "balanced"}
        best = sorted(steps, key=steps.get)[:3]
        print(f"| {cluster} | {steps['static']:.2f} | " + " | ".join(f"`{p}` {steps[p]:.2f}" for p in best) +
              f" | {steps['relibra'] / steps[best[0]]:.3f} |")
END
