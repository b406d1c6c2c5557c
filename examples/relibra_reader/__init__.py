"""A trainer's side of relibra: waits for the plan of a step, proves that it belongs to the routing at hand, and gives its arrays.

    from relibra_reader import verify_digest, wait_for_plan

    plan = wait_for_plan("run/step-000007.plan.h5", step=7, timeout=600)
    verify_digest(plan, ["run/step-000007.h5"])
    for m in range(plan.num_micro_batches):
        for l in range(plan.num_layers):
            cell = plan.cell(m, l)
            cell.slot_expert[rank], cell.send[rank], cell.receive[rank]

Needs numpy and h5py. The files are described in docs/formats.md; letters and numbering are those of that page.
"""
from .digest import DigestMismatch, dump_digest, verify_digest
from .dump import Dump
from .plan import Cell, Copies, Plan, Splits
from .wait import wait_for_plan

__all__ = ["Cell", "Copies", "DigestMismatch", "Dump", "Plan", "Splits", "dump_digest", "verify_digest", "wait_for_plan"]
