"""Solve odd instances, read damaged files, and count what came of it.

``make fuzz SEED=1 COUNT=100000`` takes turns with all problems; without a seed there is a fresh
one, which is printed.
"""

from __future__ import annotations

import argparse
import os
import resource
import secrets
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

import pandas as pd

from tests.fuzz.running import FILES, Tally, try_many
from tests.reference import PROBLEMS

MOST_BYTES = 8 * 2**30
"""Of memory of a process, far more than any instance needs."""
AT_ONCE = 50
"""Instances or files of a task."""
MOST_TOLD = 3
"""Failures of one kind that are told; others are counted."""
OF_INSTANCES = (
    "instances",
    "at the edge",
    "with a known optimum",
    "with a limit",
    "runs",
    "declined",
    "optima confirmed",
    "bounds checked",
    "stopped by a limit",
    "unproved, with a reason",
    "faults",
)
OF_FILES = ("files", "read", "refused", "faults")


def main(arguments=None):
    """Run what the command line asks for; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, help="by default a fresh one")
    parser.add_argument("--count", type=int, default=100_000, help="instances in all")
    of = {"choices": [*sorted(PROBLEMS), FILES], "action": "append"}
    parser.add_argument("--of", **of, help="these alone, by default all")
    parser.add_argument("--number", type=int, help="the one of that number alone")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(arguments)
    seed = secrets.randbelow(10**9) if asked.seed is None else asked.seed
    kinds = asked.of or [*sorted(PROBLEMS), FILES]
    numbers = range(-(-asked.count // len([kind for kind in kinds if kind != FILES] or kinds)))
    if asked.number is not None:
        numbers = range(asked.number, asked.number + 1)
    print(f"seed {seed}: {len(numbers):,} each of {', '.join(kinds)}", flush=True)
    started = time.monotonic()
    tally, is_whole = run(seed, kinds, numbers, asked.processes)
    for columns in (OF_INSTANCES, OF_FILES):
        if tally.total(columns[0]):
            print(table(tally, columns))
    print(f"seed {seed}, in {time.monotonic() - started:,.0f} s")
    return 0 if is_whole and not tally.failures else 1


def run(seed, kinds, numbers, processes):
    """Return what came of all, and whether no process died of one."""
    parts = [numbers[first : first + AT_ONCE] for first in range(0, len(numbers), AT_ONCE)]
    tally, told = Tally(), Counter()
    most = min(processes, len(parts) * len(kinds))
    with ProcessPoolExecutor(most, initializer=limit_memory) as pool:
        tasks = {
            pool.submit(try_many, seed, kind, part): f"{kind} {part}"
            for part in parts
            for kind in kinds
        }
        for number, task in enumerate(as_completed(tasks), start=1):
            try:
                found = task.result()
            except BrokenProcessPool:
                print(f"a process died, at the latest of {tasks[task]}", file=sys.stderr)
                return tally, False
            for failure in found.failures:
                told[failure.kind] += 1
                if told[failure.kind] <= MOST_TOLD:
                    print(f"{failure.of}, {failure.by}: {failure.text}\n  {failure.command}")
            tally.add(found)
            if number % 50 == 0 or number == len(tasks):
                counts = (
                    f"{tally.total(what):,} {what}" for what in ("instances", "runs", "faults")
                )
                print(", ".join(counts), flush=True)
    return tally, True


def limit_memory() -> None:
    """Let a process that takes memory without end fail, and not the machine."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def table(tally, columns):
    """Return counts, a line for each variant or kind of file and one for all."""
    names = sorted({(of, variant) for of, variant, what in tally.counts if what == columns[0]})
    counts = [[tally.counts[*name, column] for column in columns] for name in names]
    frame = pd.DataFrame(counts, index=list(map(" ".join, names)), columns=list(columns))
    frame.loc["all"] = frame.sum()
    return frame.map("{:,}".format).to_string()


if __name__ == "__main__":
    sys.exit(main())
