"""Reads a contiguous dump, the same compressed, and a plan, and holds types and shapes against docs/formats.md.

    files.py DUMP COMPRESSED PLAN
    files.py --shard DUMP PREFIX    cut a dump into PREFIX0.h5 .. PREFIX2.h5
"""
import sys

import h5py
import numpy as np


def expect(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: expected {expected}, found {found}")


def types(name, group, expected):
    for key, (dtype, shape) in expected.items():
        expect(f"{name}:{key} type", group[key].dtype.str, dtype)
        expect(f"{name}:{key} shape", group[key].shape, shape)


def attributes(name, file, expected):
    expect(f"{name} attributes", sorted(file.attrs), sorted(expected))
    for key, dtype in expected.items():
        kind = file.attrs.get_id(key).get_type()
        if dtype == "text":
            expect(f"{name}:{key} fixed UTF-8", (isinstance(kind, h5py.h5t.TypeStringID), kind.is_variable_str(),
                                                 kind.get_cset()), (True, False, h5py.h5t.CSET_UTF8))
        else:
            expect(f"{name}:{key} type", kind.dtype.str, dtype)


def check_dump(path, deflated):
    with h5py.File(path) as f:
        ids = f["experts"]
        rows, layers, top_k = ids.shape
        sequences = len(f["sequences/row_offset"]) - 1
        attributes(path, f, dict(format="text", version="<i4", step="<i8", num_experts="<i4", top_k="<i4", id_space="text",
                                 num_micro_batches="<i4", missing_id="<i4", model="text", producer="text"))
        types(path, f, {"layers": ("<i4", (layers,)), "sequences/row_offset": ("<i8", (sequences + 1,)),
                        "sequences/num_tokens": ("<i8", (sequences,)), "sequences/micro_batch": ("<i4", (sequences,)),
                        "sequences/source_rank": ("<i4", (sequences,)), "sequences/group": ("<i4", (sequences,))})
        if ids.dtype.kind not in "ui" or ids.attrs.keys():
            sys.exit(f"{path}:experts is {ids.dtype}")
        expect(path + " layout", (ids.chunks is not None, ids.compression, ids.shuffle),
               (deflated, "gzip" if deflated else None, deflated))
        if deflated:
            expect(path + " chunks are whole rows", ids.chunks[1:], (layers, top_k))
        return ids[...], f["sequences/row_offset"][...]


def check_plan(path):
    with h5py.File(path) as f:
        numbers = ("version num_experts num_layers top_k num_micro_batches ep_size num_ep_groups gpus_per_node slots_per_rank "
                   "replica_slots physical_slots").split()
        wide = ("step", "seed", "search_moves")
        text = ("format", "policy", "tool", "replica_domain", "dump_digest")
        attributes(path, f, {**{n: "<i4" for n in numbers}, **{n: "<i8" for n in wide}, **{n: "text" for n in text}})
        E, L, M, P, D, C = (int(f.attrs[n]) for n in ("num_experts", "num_layers", "num_micro_batches", "ep_size",
                                                      "num_ep_groups", "slots_per_rank"))
        S, N = len(f["sequences/micro_batch"]), len(f["placement/moves"])
        copies, split = int(f["replicas/offset"][-1]), int(f["split/offset"][-1])
        if not copies or not split or not N:
            sys.exit(f"{path}: a plan without copies, splits or moves shows too little")
        types(path, f, {"layers": ("<i4", (L,)), "placement/expert_rank": ("<i4", (L, E)), "placement/slot_expert": ("<i4", (L, P, C)),
                        "placement/previous_rank": ("<i4", (L, E)), "placement/moves": ("<i4", (N, 4)),
                        "sequences/micro_batch": ("<i4", (S,)), "sequences/source_rank": ("<i4", (S,)),
                        "replicas/offset": ("<i8", (M * L + 1,)), "split/offset": ("<i8", (M * L + 1,)),
                        **{"replicas/" + n: ("<i4", (copies,)) for n in ("expert", "rank", "slot")},
                        **{"split/" + n: ("<i4", (split,)) for n in ("expert", "source", "rank", "tokens")},
                        "transfer/assignments": ("<i4", (M, L, D * P, P)),
                        "metrics/rank_tokens": ("<i8", (M, L, D * P)), "metrics/rank_tokens_static": ("<i8", (M, L, D * P))})
        transfer = f["transfer/assignments"][...].astype(np.int64)
        by_rank = transfer.reshape(M, L, D, P, P).sum(3).reshape(M, L, D * P)
        if not np.array_equal(by_rank, f["metrics/rank_tokens"][...]):
            sys.exit(f"{path}: transfers do not sum to rank_tokens")


def cut(path, prefix):
    """Shards of unequal size, the middle one with a single sequence."""
    with h5py.File(path) as f:
        sequences = len(f["sequences/row_offset"]) - 1
        offset = f["sequences/row_offset"][...]
        borders = [0, sequences // 3, sequences // 3 + 1, sequences]
        for i in range(3):
            first, last = borders[i], borders[i + 1]
            with h5py.File(f"{prefix}{i}.h5", "w") as out:
                for key, value in f.attrs.items():
                    out.attrs[key] = value
                out.attrs["shard"], out.attrs["num_shards"] = i, 3
                out["layers"] = f["layers"][...]
                out["experts"] = f["experts"][offset[first]:offset[last]]
                for key, column in f["sequences"].items():
                    out["sequences/" + key] = column[first:last] if key != "row_offset" else offset[first:last + 1] - offset[first]


if sys.argv[1] == "--shard":
    cut(sys.argv[2], sys.argv[3])
else:
    plain, compressed = check_dump(sys.argv[1], False), check_dump(sys.argv[2], True)
    if not all(np.array_equal(a, b) for a, b in zip(plain, compressed)):
        sys.exit("the compressed dump differs")
    check_plan(sys.argv[3])
