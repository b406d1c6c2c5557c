#!/usr/bin/env bash
# The Python of docs/formats.md works: its producer's dump is planned and checked, and its trainer's view of that plan adds up.
source "$SOURCE/tests/support/whole.sh"
need_python
awk '/^```python/ { inside = 1; next } /^```/ { inside = 0 } inside' "$SOURCE/docs/formats.md" >formats_doc.py
cat >use.py <<'END'
import sys
import numpy as np
from formats_doc import Plan, write_dump

E, K, L, M = 12, 3, 2, 2
random = np.random.default_rng(1)


def sequences():
    for rows in (40, 0, 25, 60, 33, 8, 51, 19):
        yield np.stack([[random.permutation(random.permutation(E)[:8])[:K] for _ in range(L)] for _ in range(rows)]
                       ) if rows else np.zeros((0, L, K), int)


if sys.argv[1] == "write":
    write_dump("doc.h5", list(sequences()), step=7, num_experts=E, layers=[1, 2], prompt_of_sequence=[0, 0, 0, 0, 1, 1, 1, 1])
else:
    import h5py
    plan = Plan("doc.plan.h5")
    ids = h5py.File("doc.h5")["experts"][...]
    offset = h5py.File("doc.h5")["sequences/row_offset"][...]
    of, source = plan.file["sequences/micro_batch"][...], plan.file["sequences/source_rank"][...]
    copies = 0
    for m in range(M):
        for l in range(L):
            load = np.zeros(plan.W, int)
            for r in range(plan.W):
                rows = [ids[offset[s]:offset[s + 1], l] for s in range(len(of)) if of[s] == m and source[s] == r]
                mine = np.concatenate(rows).ravel() if rows else np.zeros(0, int)
                sent = np.zeros(plan.P, int)
                for e in range(E):
                    for to in plan.destinations(r, m, l, e, int((mine == e).sum())):
                        homes, slots = plan.experts_on(to, m, l)
                        assert e in homes or e in slots.values(), (r, to, e)
                        sent[to % plan.P] += 1
                assert (sent == plan.send_counts(r, m, l)).all(), (m, l, r)
                assert sum(plan.receive_counts(r, m, l)) == plan.file["metrics/rank_tokens"][m, l, r]
                copies += len(plan.experts_on(r, m, l)[1])
    assert copies == len(plan.file["replicas/expert"]) > 0
END
"$PYTHON" use.py write
quietly on 2 plan doc.h5 -o doc.plan.h5 --ep-size 4 --gpus-per-node 2 --micro-batches 2 --tolerance 0
quietly on 2 check doc.plan.h5 doc.h5 --first
"$PYTHON" use.py read || fail "the trainer's view of docs/formats.md"
