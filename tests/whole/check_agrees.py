"""Parts of check_agrees_test.sh: comparing statistics, and mutating plan files.

    check_agrees.py statistics MINE.json THEIRS.json   `relibra check --json` against `verify_plan.py --json`
    check_agrees.py mutate PLAN.h5 DUMP.h5 VERIFY_PLAN.py
        writes mutated/NAME.h5 for each mutation of the plan and prints its path, if verify_plan.py finds it broken (1)
        or not readable (2); otherwise ends with 1
"""
import contextlib
import io
import json
import os
import runpy
import shutil
import sys


def statistics(mine_path, theirs_path):
    with open(mine_path) as mine_file, open(theirs_path) as theirs_file:
        mine, theirs = json.load(mine_file), json.load(theirs_file)
    before, after = mine["summary"]["before"], mine["summary"]["after"]
    pairs = dict(skew=after["skew"], skew_static=before["skew"], node_skew=after["node_skew"],
                 over_node_bound=after["over_node_bound"], copies=mine["summary"]["copies"],
                 fan_out=mine["summary"]["fan_out"], pairs_busiest=after["pairs_busiest"],
                 pairs_busiest_static=before["pairs_busiest"])
    wrong = []
    for name, values in pairs.items():
        for statistic in ("mean", "p50", "p99", "max"):
            if abs(values[statistic] - theirs[name][statistic]) > 0.6e-5:  # theirs are rounded to 5 digits
                wrong.append(f"{name} {statistic}: {values[statistic]} and {theirs[name][statistic]}")
    for name, value in (("assignments", mine["assignments"]), ("cross_node_pairs", after["cross_node_pairs"]),
                        ("cross_node_pairs_static", before["cross_node_pairs"]), ("sequences", mine["sequences"])):
        if value != theirs[name]:
            wrong.append(f"{name}: {value} and {theirs[name]}")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


def add(name, index, by=1):
    def change(file):
        values = file[name][...]
        values.flat[index] += by
        file[name][...] = values
    return change


def set_to(name, index, value):
    def change(file):
        values = file[name][...]
        values.flat[index] = value
        file[name][...] = values
    return change


def swap(name, i, j):
    def change(file):
        values = file[name][...]
        values[[i, j]] = values[[j, i]]
        file[name][...] = values
    return change


def reverse(group, cell, *names):
    """The list of one cell in reverse order."""
    def change(file):
        first, last = file[group + "/offset"][cell:cell + 2]
        for name in names:
            values = file[group + "/" + name][...]
            values[first:last] = values[first:last][::-1].copy()
            file[group + "/" + name][...] = values
    return change


def attribute(name, value):
    def change(file):
        file.attrs[name] = type(file.attrs[name])(value) if not isinstance(value, str) else value
    return change


def remove(name):
    def change(file):
        del file[name]
    return change


def cut(*names):
    """One item less in each list."""
    def change(file):
        for name in names:
            values = file[name][:-1]
            del file[name]
            file[name] = values
    return change


MUTATIONS = {
    "step": attribute("step", 77), "top_k": attribute("top_k", 5), "num_micro_batches": attribute("num_micro_batches", 3),
    "ep_size": attribute("ep_size", 4), "num_ep_groups": attribute("num_ep_groups", 1), "gpus_per_node": attribute("gpus_per_node", 2),
    "gpus_per_node_odd": attribute("gpus_per_node", 3), "num_experts": attribute("num_experts", 31), "num_layers": attribute("num_layers", 2),
    "physical_more": attribute("physical_slots", 7), "physical_fewer": attribute("physical_slots", 4), "slots_per_rank": attribute("slots_per_rank", 3),
    "replica_slots": attribute("replica_slots", 1), "domain": attribute("replica_domain", "rack"), "digest": attribute("dump_digest", "c1-0123456789abcdef"),
    "format": attribute("format", "relibra.other"), "version": attribute("version", 2),
    "layers": add("layers", 1), "home": add("placement/expert_rank", 5), "home_range": set_to("placement/expert_rank", 5, 8),
    "slot": set_to("placement/slot_expert", 0, -1), "slot_swap": swap("placement/slot_expert", 0, 1), "previous": add("placement/previous_rank", 3),
    "move": add("placement/moves", 2), "moves_order": swap("placement/moves", 0, 1), "moves_cut": cut("placement/moves"),
    "micro_batch": set_to("sequences/micro_batch", 0, 1), "micro_batch_range": set_to("sequences/micro_batch", 0, 4),
    "source": add("sequences/source_rank", 0), "source_range": set_to("sequences/source_rank", 0, 16), "sequence_cut": cut("sequences/micro_batch"),
    "replica_offset": add("replicas/offset", 1), "replica_offset_start": add("replicas/offset", 0), "replica_expert": add("replicas/expert", 0),
    "replica_rank": set_to("replicas/rank", 0, 16), "replica_slot": set_to("replicas/slot", 0, 2), "replica_order": reverse("replicas", 1, "expert", "rank", "slot"),
    "replica_cut": cut("replicas/expert", "replicas/rank", "replicas/slot"),
    "split_offset": add("split/offset", 1), "split_expert": add("split/expert", 0), "split_source": set_to("split/source", 0, -1),
    "split_rank": set_to("split/rank", 0, 15), "split_tokens": add("split/tokens", 0), "split_zero": set_to("split/tokens", 0, 0),
    "split_order": reverse("split", 1, "expert", "source", "rank", "tokens"), "split_cut": cut("split/expert", "split/source", "split/rank", "split/tokens"),
    "transfer": add("transfer/assignments", 9), "no_transfer": remove("transfer/assignments"), "rank_tokens": add("metrics/rank_tokens", -1, -1),
    "rank_tokens_static": add("metrics/rank_tokens_static", 0), "no_slots": remove("placement/slot_expert"), "no_metrics": remove("metrics/rank_tokens"),
}


def verify(script, *arguments):
    """Exit status of verify_plan.py in this process."""
    sys.argv = [script, *arguments]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            return end.code or 0
    return 0


def mutate(plan, dump, script):
    import h5py
    os.makedirs("mutated", exist_ok=True)
    for name, change in MUTATIONS.items():
        path = f"mutated/{name}.h5"
        shutil.copyfile(plan, path)
        with h5py.File(path, "r+") as file:
            change(file)
        status = verify(script, path, dump)
        print(path, flush=True)
        if status not in (1, 2):
            print(f"{name}: verify_plan.py ends with {status}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(dict(statistics=statistics, mutate=mutate)[sys.argv[1]](*sys.argv[2:]))
