#!/usr/bin/env python3
"""What a trainer does with a plan: waits for it, proves that it is of this step's routing, and takes its arrays.

    03-read-a-plan.py PLAN_OR_FOLDER STEP DUMP...             a summary of what every rank does
    03-read-a-plan.py PLAN_OR_FOLDER STEP DUMP... --cells     all arrays, a line each, as 04-read-plan prints them

Needs numpy and h5py.
"""
import argparse

from relibra_reader import verify_digest, wait_for_plan


def print_cells(plan):
    line = lambda name, *values: print(name, *(str(int(v)) for v in values))
    for m in range(plan.num_micro_batches):
        for l in range(plan.num_layers):
            cell = plan.cell(m, l)
            line("cell", m, l)
            line("home", *cell.expert_rank)
            for r in range(plan.world):
                line("slots", r, *cell.slot_expert[r])
            for copy in zip(*cell.copies):
                line("copy", *copy)
            for entry in zip(*cell.splits):
                line("split", *entry)
            for r in range(plan.world):
                line("send", r, *cell.send[r])
                line("receive", r, *cell.receive[r])


def print_summary(plan):
    print(f"step {plan.step}: {plan.num_micro_batches} micro-batches, {plan.num_layers} layers, {plan.world} ranks, {len(plan.moves)} moves")
    cells = [plan.cell(m, l) for m in range(plan.num_micro_batches) for l in range(plan.num_layers)]
    for r in range(plan.world):
        load = [int(cell.receive[r].sum()) for cell in cells]
        copies = sum(int((cell.copies.rank == r).sum()) for cell in cells)
        print(f"rank {r}: computes {sum(load)} assignments, at most {max(load)} in a cell; holds {copies} copies over the step")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("where")
    parser.add_argument("step", type=int)
    parser.add_argument("dumps", nargs="+")
    parser.add_argument("--cells", action="store_true")
    parser.add_argument("--timeout", type=float, default=600)
    arguments = parser.parse_args()
    with wait_for_plan(arguments.where, arguments.step, arguments.timeout) as plan:
        verify_digest(plan, arguments.dumps)
        (print_cells if arguments.cells else print_summary)(plan)


if __name__ == "__main__":
    main()
