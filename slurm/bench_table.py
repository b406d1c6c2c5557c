"""The results of a sweep as two Markdown tables: bench_table.py FOLDER."""
import json
import pathlib
import re
import sys


def rows_of(folder, kind):
    """(numbers in the name apart from text, the document), in an order in which 2 comes before 10."""
    files = folder.glob(kind + "-*.json")
    natural = lambda path: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]
    return [(path.stem, json.loads(path.read_text())) for path in sorted(files, key=natural)]


def table(head, rows):
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)] if rows else []


def plan_row(name, document):
    plan, overall, run = document["plan"], document["overall"], document["run"]
    seconds = run["seconds"]
    return [plan["policy"], str(plan["replica_slots"]), str(run["ranks"]), str(run["threads"]), f"{seconds['total']:.3f}",
            f"{seconds['count']:.3f}", f"{run['bytes_read'] / max(seconds['count'], 1e-9) / 1e6:.0f}",
            f"{overall['before']['skew']['mean']:.4f}", f"{overall['after']['skew']['mean']:.4f}",
            f"{overall['after']['skew']['p99']:.4f}", f"{overall['copies']['mean']:.1f}"]


def run_row(name, document):
    step = {variant["name"]: variant["seconds"]["step"] for variant in document["variants"]}
    return [name.removeprefix("run-"), document["backend"], str(document["processes"]), f"{1e3 * step['plan']:.3f}",
            f"{step['static'] / step['plan']:.3f}", f"{step['balanced'] / step['plan']:.3f}"]


def main():
    folder = pathlib.Path(sys.argv[1])
    plans = [plan_row(*row) for row in rows_of(folder, "plan")]
    runs = [run_row(*row) for row in rows_of(folder, "run")]
    lines = table(["policy", "slots", "ranks", "threads", "plan s", "count s", "read MB/s", "skew before", "skew", "p99", "copies"], plans)
    lines += [""] * bool(runs) + table(["plan", "backend", "ranks", "step ms", "static / plan", "balanced / plan"], runs)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
