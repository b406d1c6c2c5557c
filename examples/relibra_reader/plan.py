"""A plan as arrays."""
from dataclasses import dataclass
from typing import NamedTuple

import h5py
import numpy as np


class Copies(NamedTuple):
    """Copies of a cell, equally long arrays by (expert, rank): `expert` is in replica slot `slot` of global rank `rank`."""

    expert: np.ndarray
    rank: np.ndarray
    slot: np.ndarray


class Splits(NamedTuple):
    """Split of the tokens of experts that have copies, by (expert, source, rank): so many `tokens` of `source` go to `rank`."""

    expert: np.ndarray
    source: np.ndarray
    rank: np.ndarray
    tokens: np.ndarray


@dataclass
class Cell:
    """One (micro-batch, layer).

    expert_rank (E)       home of each expert as a rank of its EP group, 0..P-1
    slot_expert (W, C+V)  expert in each slot of each global rank, -1 where empty: C home slots, then the V replica slots
    copies, splits        see there
    send        (W, P)    assignments from each rank to each rank of its EP group, itself included; None if the plan has none
    receive     (W, P)    assignments to each rank from each rank of its EP group; likewise
    ep_size               P
    """

    expert_rank: np.ndarray
    slot_expert: np.ndarray
    copies: Copies
    splits: Splits
    send: np.ndarray | None
    receive: np.ndarray | None
    ep_size: int

    def destinations(self, rank, experts):
        """Where global rank `rank` sends its tokens of this cell.

        experts: integers (rows, K), the routes of all its tokens of the micro-batch in row order of the joined dump; negative
        where none was recorded. Returns the global rank of each assignment, (rows, K), -1 where there is none.
        """
        experts = np.asarray(experts)
        group = rank // self.ep_size * self.ep_size
        result = np.where(experts >= 0, group + self.expert_rank[experts], -1)
        mine = self.splits.source == rank
        flat, out = experts.reshape(-1), result.reshape(-1)
        for expert in np.unique(self.splits.expert[mine]):
            entries = mine & (self.splits.expert == expert)
            places = np.flatnonzero(flat == expert)
            tokens = self.splits.tokens[entries]
            if tokens.sum() != len(places):
                raise ValueError(f"rank {rank} has {len(places)} tokens for expert {expert}, the plan splits {tokens.sum()}: other routing")
            out[places] = np.repeat(self.splits.rank[entries], tokens)
        return result


class Plan:
    """An open plan file. The file may be replaced or removed while it is open: what was opened stays readable.

    Integers: step, num_experts (E), num_layers (L), top_k (K), num_micro_batches (M), ep_size (P), num_ep_groups (D),
    gpus_per_node (G), world (W = D*P), slots_per_rank (C), replica_slots (V). Strings: policy, dump_digest, path.
    Arrays: layers (L), micro_batch (S) and source_rank (S) of the joined dump's sequences, moves (N, 4) as
    (layer, expert, from, to), expert_rank (L, E).
    """

    def __init__(self, path):
        self.path = str(path)
        self._file = h5py.File(path, "r")
        attributes = self._file.attrs
        text = lambda name: attributes[name].decode() if isinstance(attributes[name], bytes) else str(attributes[name])
        if "format" not in attributes or text("format") != "relibra.plan" or int(attributes["version"]) != 1:
            self._file.close()
            raise ValueError(f"{path}: expected a plan of version 1")
        for name in ("step", "num_experts", "num_layers", "top_k", "num_micro_batches", "ep_size", "num_ep_groups", "gpus_per_node",
                     "slots_per_rank", "replica_slots"):
            setattr(self, name, int(attributes[name]))
        self.policy, self.dump_digest = text("policy"), text("dump_digest")
        self.world = self.ep_size * self.num_ep_groups
        read = lambda name: self._file[name][...]
        self.layers, self.moves, self.expert_rank = read("layers"), read("placement/moves"), read("placement/expert_rank")
        self.micro_batch, self.source_rank = read("sequences/micro_batch"), read("sequences/source_rank")
        self._home_slots = read("placement/slot_expert")
        self._lists = {group: (read(group + "/offset"), [read(f"{group}/{field}") for field in kind._fields])
                       for group, kind in (("replicas", Copies), ("split", Splits))}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._file.close()

    def cell(self, micro_batch, layer):
        """The arrays of one (micro-batch, routed layer), both counted from 0."""
        if not (0 <= micro_batch < self.num_micro_batches and 0 <= layer < self.num_layers):
            raise IndexError(f"({micro_batch}, {layer}) of {self.num_micro_batches} micro-batches and {self.num_layers} layers")
        copies = Copies(*self._entries("replicas", micro_batch, layer))
        slots = np.full((self.world, self.slots_per_rank + self.replica_slots), -1, np.int32)
        slots[:, :self.slots_per_rank] = np.tile(self._home_slots[layer], (self.num_ep_groups, 1))
        slots[copies.rank, self.slots_per_rank + copies.slot] = copies.expert
        send = receive = None
        if "transfer/assignments" in self._file:
            send = self._file["transfer/assignments"][micro_batch, layer]
            groups = send.reshape(self.num_ep_groups, self.ep_size, self.ep_size)
            receive = groups.transpose(0, 2, 1).reshape(self.world, self.ep_size)
        splits = Splits(*self._entries("split", micro_batch, layer))
        return Cell(self.expert_rank[layer], slots, copies, splits, send, receive, self.ep_size)

    def _entries(self, group, micro_batch, layer):
        offset, fields = self._lists[group]
        cell = micro_batch * self.num_layers + layer
        return [field[offset[cell]:offset[cell + 1]] for field in fields]
