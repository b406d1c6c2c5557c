"""The routing of a step, sequence by sequence."""
import h5py
import numpy as np


class Dump:
    """One step, in one file or several shards in any order. Files are opened only while they are read.

    num_experts (E), top_k (K), layers (L): as the files say. num_sequences (S) counts over all shards.
    """

    def __init__(self, paths):
        shards = []
        for path in paths:
            with h5py.File(path, "r") as file:
                kind = file.attrs.get("format", b"")
                if (kind.decode() if isinstance(kind, bytes) else kind) != "relibra.routing":
                    raise ValueError(f"{path}: expected a dump, found format {kind!r}")
                shape = tuple(int(file.attrs[name]) for name in ("step", "num_experts", "top_k")), tuple(file["layers"][...])
                shards.append((int(file.attrs.get("shard", 0)), str(path), shape, file["sequences/row_offset"][...].astype(np.int64)))
        shards.sort(key=lambda shard: shard[0])
        if [shard[0] for shard in shards] != list(range(len(shards))):
            raise ValueError(f"expected the shards 0..{len(shards) - 1} once each, found {[shard[0] for shard in shards]}")
        if len({shard[2] for shard in shards}) > 1:
            raise ValueError("the shards are of different steps or models")
        (self.step, self.num_experts, self.top_k), layers = shards[0][2]
        self.layers = np.array(layers)
        self._shards = [(path, offset) for _, path, _, offset in shards]

    @property
    def num_sequences(self):
        return sum(len(offset) - 1 for _, offset in self._shards)

    def sequences(self):
        """Yields the ids of each sequence of the joined dump in turn, (rows, L, K) int32, -1 where no route was recorded."""
        for path, offset in self._shards:
            with h5py.File(path, "r") as file:
                missing = file.attrs.get("missing_id")
                for first, last in zip(offset[:-1], offset[1:]):
                    ids = file["experts"][first:last].astype(np.int32)
                    ids[ids < 0] = -1
                    if missing is not None:
                        ids[ids == int(missing)] = -1
                    yield ids
