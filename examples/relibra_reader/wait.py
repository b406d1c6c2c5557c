"""Waiting for a plan that is still being made."""
import os
import pathlib
import time

from .plan import Plan


def wait_for_plan(where, step=None, timeout=None, poll=0.2):
    """The Plan of a step, as soon as it is there.

    where: the plan's file, or a folder that gets plans as *.plan.h5. step: the step it must be of; a plan of another step under
    that name is one that has not been replaced yet. Needed for a folder. timeout: seconds after which TimeoutError is raised;
    None waits for ever. poll: seconds between two looks.

    A plan appears under its name only when it is whole, so what is found can be read at once.
    """
    where = pathlib.Path(where)
    if where.is_dir() and step is None:
        raise ValueError(f"{where} is a folder: which step?")
    end = None if timeout is None else time.monotonic() + timeout
    others = {}  # plans of other steps, by name, as they were when they were looked at
    while True:
        for path in sorted(where.glob("*.plan.h5")) if where.is_dir() else [where]:
            try:
                facts = os.stat(path)
                identity = facts.st_ino, facts.st_mtime_ns, facts.st_size
                if others.get(path) == identity:
                    continue
                plan = Plan(path)
            except FileNotFoundError:
                continue
            if step is None or plan.step == step:
                return plan
            plan.close()
            others[path] = identity
        if end is not None and time.monotonic() >= end:
            raise TimeoutError(f"no plan{'' if step is None else f' of step {step}'} at {where} after {timeout} s")
        time.sleep(poll)
