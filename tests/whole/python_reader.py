"""The oracle of python_reader_test.sh: holds what examples/relibra_reader gives against the rows of the dump and what `check` counts.

    python_reader.py shards OUT0 OUT1             a random step in two shards, some routes missing
    python_reader.py arrays PLAN CHECK_JSON DUMP...
    python_reader.py others PLAN DUMP OTHER_DUMP  a plan is not taken for another routing
    python_reader.py waits PLAN_OF_STEP_0 PLAN_OF_STEP_1
"""
import collections
import json
import pathlib
import shutil
import sys
import threading
import time

import h5py
import numpy as np
from relibra_reader import DigestMismatch, Dump, Plan, dump_digest, verify_digest, wait_for_plan


def shards(*paths):
    draw = np.random.default_rng(7)
    experts, top_k, layers = 10, 3, [2, 3, 5]
    for number, path in enumerate(paths):
        rows = draw.integers(0, 60, size=9)
        score = draw.gumbel(size=(rows.sum(), len(layers), experts)) + 3 * np.linspace(0, 1, experts)
        ids = np.argsort(-score, axis=2)[:, :, :top_k].astype("u1")
        ids[draw.random(ids.shape) < 0.02] = 200
        with h5py.File(path, "w") as file:
            file.attrs["format"], file.attrs["version"], file.attrs["step"] = "relibra.routing", 1, 4
            file.attrs["num_experts"], file.attrs["top_k"], file.attrs["missing_id"] = experts, top_k, 200
            file.attrs["shard"], file.attrs["num_shards"] = number, len(paths)
            file["experts"], file["layers"] = ids, np.array(layers, "i4")
            file["sequences/row_offset"] = np.concatenate([[0], np.cumsum(rows)])


def routes_by_bin(plan, dump):
    """(micro-batch, rank) -> its rows (rows, L, K) in row order."""
    bins = collections.defaultdict(lambda: [np.empty((0, plan.num_layers, plan.top_k), np.int32)])
    for s, ids in enumerate(dump.sequences()):
        bins[plan.micro_batch[s], plan.source_rank[s]].append(ids)
    return lambda m, r: np.concatenate(bins[m, r])


def arrays(plan_path, check_path, *dumps):
    check = json.loads(pathlib.Path(check_path).read_text())
    assert check["valid"]
    plan, dump = Plan(plan_path), Dump(reversed(dumps))
    assert plan.dump_digest == check["plan"]["dump_digest"] == dump_digest(dump)
    assert len(plan.micro_batch) == dump.num_sequences and (plan.layers == dump.layers).all()
    verify_digest(plan, dumps)
    rows, skews, total, experts_copied = routes_by_bin(plan, dump), [], 0, 0
    for m in range(plan.num_micro_batches):
        for l in range(plan.num_layers):
            cell = plan.cell(m, l)
            experts_copied += len(cell.copies.expert)
            load = np.zeros(plan.world, np.int64)
            for r in range(plan.world):
                ids = rows(m, r)[:, l]
                to = cell.destinations(r, ids)
                assert ((to >= 0) == (ids >= 0)).all()
                # Whoever gets a token holds its expert, in the sender's EP group.
                for rank in np.unique(to[to >= 0]):
                    assert rank // plan.ep_size == r // plan.ep_size
                    assert np.isin(ids[to == rank], cell.slot_expert[rank]).all()
                count = np.bincount(to[to >= 0], minlength=plan.world)
                load += count
                first = r // plan.ep_size * plan.ep_size
                if cell.send is not None:
                    assert (cell.send[r] == count[first:first + plan.ep_size]).all()
                    for p in range(plan.ep_size):
                        assert cell.receive[first + p, r - first] == cell.send[r, p]
                homes = cell.slot_expert[r, :plan.slots_per_rank]
                assert sorted(homes[homes >= 0]) == list(np.flatnonzero(cell.expert_rank == r % plan.ep_size))
            assert (cell.slot_expert[:, plan.slots_per_rank:] >= 0).sum() == len(cell.copies.expert)
            total += load.sum()
            for group in load.reshape(-1, plan.ep_size):
                if group.any():
                    skews.append(group.max() / group.mean())
    after = check["summary"]["after"]["skew"]
    assert total == check["assignments"], (total, check["assignments"])
    assert abs(np.mean(skews) - after["mean"]) < 1e-9 and abs(max(skews) - after["max"]) < 1e-9, (np.mean(skews), after)
    print(f"{plan_path}: {len(skews)} (cell, group) pairs, {experts_copied} copies")
    assert experts_copied > 0 or plan.replica_slots == 0


def refuses(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def others(plan_path, dump, other):
    plan = Plan(plan_path)
    assert plan_path in refuses(DigestMismatch, lambda: verify_digest(plan, [other]))
    refuses(ValueError, lambda: Plan(dump))
    refuses(ValueError, lambda: Dump([plan_path]))
    refuses(ValueError, lambda: Dump([dump, dump]))
    refuses(IndexError, lambda: plan.cell(plan.num_micro_batches, 0))
    refuses(IndexError, lambda: plan.cell(0, -1))
    # Rows of which one is missing no longer sum to the split.
    rows = routes_by_bin(plan, Dump([dump]))
    m, l = next((m, l) for m in range(plan.num_micro_batches) for l in range(plan.num_layers) if len(plan.cell(m, l).splits.source))
    cell = plan.cell(m, l)
    expert, source = cell.splits.expert[0], cell.splits.source[0]
    ids = rows(m, source)[:, l]
    refuses(ValueError, lambda: cell.destinations(source, ids[~(ids == expert).any(axis=1)]))


def after(seconds, action):
    threading.Thread(target=lambda: (time.sleep(seconds), action()), daemon=True).start()


def waits(zero, one):
    folder = pathlib.Path("arriving")
    folder.mkdir()
    started = time.monotonic()
    assert "step 1" in refuses(TimeoutError, lambda: wait_for_plan(folder / "a.plan.h5", step=1, timeout=0.5, poll=0.05))
    assert 0.4 < time.monotonic() - started < 5
    refuses(TimeoutError, lambda: wait_for_plan(folder, step=1, timeout=0.2, poll=0.05))
    refuses(ValueError, lambda: wait_for_plan(folder))
    # A plan of another step is not taken; the one that replaces it is.
    shutil.copy(zero, folder / "a.plan.h5")
    refuses(TimeoutError, lambda: wait_for_plan(folder / "a.plan.h5", step=1, timeout=0.3, poll=0.05))
    shutil.copy(one, folder / ".a.plan.h5.partial")
    after(0.4, lambda: (folder / ".a.plan.h5.partial").rename(folder / "a.plan.h5"))
    plan = wait_for_plan(folder / "a.plan.h5", step=1, timeout=30, poll=0.05)
    assert plan.step == 1
    # In a folder the name does not matter.
    shutil.copy(zero, folder / ".b.partial")
    after(0.4, lambda: (folder / ".b.partial").rename(folder / "b.plan.h5"))
    assert wait_for_plan(folder, step=0, timeout=30, poll=0.05).path.endswith("b.plan.h5")
    # What was opened stays readable when its file is gone.
    (folder / "a.plan.h5").unlink()
    assert plan.cell(0, 0).send.sum() > 0


if __name__ == "__main__":
    {"shards": shards, "arrays": arrays, "others": others, "waits": waits}[sys.argv[1]](*sys.argv[2:])
