"""The figures of reclaiming: greedy, bound, and the command line as a process."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.resources import as_file
from itertools import pairwise
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.bench.timing import Figure, time_function, time_process
from instances.family import generate
from instances.library import library_instances
from lyra_opt.loading import instance_text
from lyra_opt.problem import find_problem
from lyra_opt.reclaim.bounds import interchangeable_bound, rigid_bound
from lyra_opt.reclaim.lyra_greedy import LyraGreedy
from lyra_opt.result import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lyra_opt.reclaim import ReclaimInstance

REALISTIC_FAMILIES = (
    "bf-trace",
    "bf-dist",
    "rnd-trace",
    "rnd-dist",
    "messy-trace",
    "messy-dist",
)
FLEET = 520  # servers of the inference cluster of Lyra (EuroSys 2023), at 8 GPUs each
RECLAIM = 156
GROWTH = (1_250, 2_500, 5_000, 10_000, 20_000)

GREEDY_TARGET_S = 2e-3
BOUND_TARGET_S = 20e-3
PROCESS_TARGET_S = 1.0
HELP_TARGET_S = 0.5


def figures() -> Iterator[Figure]:
    """Measure, one figure at a time."""
    yield from _in_process()
    yield from _growth()
    yield from _processes()


def _greedy(instance: ReclaimInstance) -> None:
    LyraGreedy().solve(instance, limits=Limits(), rng=np.random.default_rng(0))


def _in_process() -> Iterator[Figure]:
    for family in REALISTIC_FAMILIES:
        instance = generate("reclaim", family, servers=FLEET, reclaim=RECLAIM, seed=1)
        size = _size(instance)
        yield time_function(
            f"lyra-greedy, {family}",
            lambda instance=instance: _greedy(instance),  # type: ignore[misc]
            runs=51,
            target_s=GREEDY_TARGET_S,
            remark=size,
        )
        yield time_function(
            f"bound, rigid, {family}",
            lambda instance=instance: rigid_bound(instance),  # type: ignore[misc]
            runs=21,
            target_s=BOUND_TARGET_S,
            remark=size,
        )
    elastic = generate(
        "reclaim",
        "messy-dist",
        servers=FLEET,
        reclaim=RECLAIM,
        seed=1,
        semantics="interchangeable",
    )
    yield time_function(
        "bound, interchangeable, messy-dist",
        lambda: interchangeable_bound(elastic),
        runs=5,
        remark=_size(elastic),
    )


def _growth() -> Iterator[Figure]:
    measured = []
    for servers in GROWTH:
        instance = generate(
            "reclaim", "messy-trace", servers=servers, reclaim=3 * servers // 10, seed=1
        )
        entries = instance.index.gpus.entries
        figure = time_function(
            f"lyra-greedy, messy-trace, {servers} servers",
            lambda instance=instance: _greedy(instance),  # type: ignore[misc]
            runs=11,
            remark=_size(instance),
        )
        measured.append((entries, figure.median_s))
        yield figure
    exponents = [
        log(later_s / earlier_s) / log(later / earlier)
        for (earlier, earlier_s), (later, later_s) in pairwise(measured)
    ]
    (first, first_s), (last, last_s) = measured[0], measured[-1]
    exponent = log(last_s / first_s) / log(last / first)
    yield Figure(
        what="lyra-greedy, growth",
        runs=len(measured),
        median_s=last_s,
        maximum_s=last_s,
        remark=f"time grows as (placed workers)^{exponent:.2f}; from one size to the next "
        f"{', '.join(f'{value:.2f}' for value in exponents)}",
    )


def _size(instance: ReclaimInstance) -> str:
    return (
        f"{len(instance.servers)} servers, N_R {instance.reclaim_servers}, "
        f"{len(instance.jobs)} jobs, {instance.index.gpus.entries} worker groups"
    )


def _processes() -> Iterator[Figure]:
    command = [sys.executable, "-m", "lyra_opt"]
    with as_file(library_instances()["lyra-figure-5"]) as example:
        yield time_process(
            "process: lyra-opt --help", [*command, "--help"], runs=9, target_s=HELP_TARGET_S
        )
        yield time_process(
            "process: lyra-opt solvers", [*command, "solvers"], runs=9, target_s=HELP_TARGET_S
        )
        yield time_process(
            "process: lyra-opt solve, lyra-greedy, small instance",
            [*command, "solve", str(example)],
            runs=9,
            target_s=PROCESS_TARGET_S,
            remark="6 servers, 4 jobs",
        )
    with tempfile.TemporaryDirectory() as folder:
        instance = generate("reclaim", "messy-trace", servers=FLEET, reclaim=RECLAIM, seed=1)
        path = Path(folder) / "fleet.json"
        path.write_text(instance_text(find_problem("reclaim"), instance))
        solve = [*command, "solve", str(path), "--certify"]
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(Path(folder) / "cache")}
        for what, warm_up in (("compiling the kernels", False), ("kernels from the cache", True)):
            yield time_process(
                f"process: lyra-opt solve --certify, {FLEET} servers, {what}",
                solve,
                runs=3 if warm_up else 1,
                remark=_size(instance),
                environment=environment,
                warm_up=warm_up,
            )
