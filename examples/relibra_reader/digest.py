"""The digest that ties a plan to the routing it was made for (docs/formats.md, "Digest")."""
import numpy as np

from .dump import Dump


class DigestMismatch(ValueError):
    """A plan is held against the routing of another step or run. It must not be used."""


def _mix(z):
    """The finaliser of splitmix64 on an array of unsigned 64-bit numbers."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _sum_of_sequence(number, ids, num_experts):
    """Terms of sequence `number` with ids (rows, L, K)."""
    layers = ids.shape[1]
    keys = (np.arange(layers, dtype=np.int64)[:, None] * num_experts + ids)[ids >= 0]
    counts = np.bincount(keys, minlength=layers * num_experts)
    at = np.flatnonzero(counts)
    index = np.uint64(number * layers * num_experts + 1) + at.astype(np.uint64)
    return int(_mix(_mix(index) ^ counts[at].astype(np.uint64)).sum(dtype=np.uint64))


def dump_digest(dump):
    """ "c1-" and 16 hex digits of a Dump, or of the files of one."""
    dump = dump if isinstance(dump, Dump) else Dump(dump)
    total = sum(_sum_of_sequence(s, ids, dump.num_experts) for s, ids in enumerate(dump.sequences()))
    return f"c1-{total % 2**64:016x}"


def verify_digest(plan, dump):
    """Raises DigestMismatch unless the plan was made for the routing of this Dump, or of these files."""
    found = dump_digest(dump)
    if found != plan.dump_digest:
        raise DigestMismatch(f"{plan.path}: made for routing {plan.dump_digest}, this is {found}; plan this step's dump")
