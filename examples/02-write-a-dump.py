#!/usr/bin/env python3
"""A dump written from arrays, as a rollout would: docs/formats.md in forty lines.

    02-write-a-dump.py OUT.h5

Needs numpy and h5py.
"""
import sys

import h5py
import numpy as np


def write_dump(path, step, num_experts, layers, routes, num_tokens, prompt):
    """routes: for each sequence an integer array (rows, layers, top-k) of expert ids, -1 where nothing was recorded; a row for
    every token but the last, which no engine records. num_tokens: tokens of each sequence. prompt: number of each one's prompt."""
    rows = np.array([len(r) for r in routes], np.int64)
    smallest = np.int8 if num_experts <= 128 else np.int16  # signed, for -1
    with h5py.File(path, "w") as f:
        f.attrs["format"], f.attrs["version"] = np.bytes_("relibra.routing"), np.int32(1)
        f.attrs["step"], f.attrs["num_experts"] = np.int32(step), np.int32(num_experts)
        f.attrs["top_k"] = np.int32(routes[0].shape[2])
        f.attrs["producer"] = np.bytes_("example")
        f["experts"] = np.concatenate(routes).astype(smallest)
        f["layers"] = np.asarray(layers, np.int32)  # model blocks: dense ones are left out
        f["sequences/row_offset"] = np.concatenate([[0], np.cumsum(rows)])
        f["sequences/num_tokens"] = np.asarray(num_tokens, np.int64)
        f["sequences/group"] = np.asarray(prompt, np.int32)


def main():
    draw = np.random.default_rng(0)
    experts, top_k, layers = 16, 2, [1, 2, 3]
    popularity = draw.gamma(2.0, size=(len(layers), experts))  # some experts are hot
    routes, num_tokens = [], []
    for _ in range(32):
        tokens = int(draw.integers(20, 200))
        score = np.log(popularity) + draw.gumbel(size=(tokens - 1, len(layers), experts))
        routes.append(np.argsort(-score, axis=2)[:, :, :top_k])
        num_tokens.append(tokens)
    write_dump(sys.argv[1], step=0, num_experts=experts, layers=layers, routes=routes, num_tokens=num_tokens,
               prompt=[i // 4 for i in range(32)])


if __name__ == "__main__":
    main()
