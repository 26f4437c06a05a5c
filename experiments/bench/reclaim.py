"""Benchmarks of server reclaiming: functions in this process, and commands as processes."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from lyra_opt.core.loading import instance_text
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits
from lyra_opt.experiments import compile_kernels
from lyra_opt.experiments.bench.timing import sized, timed
from lyra_opt.front_door.solving import solve
from lyra_opt.instances.family import generate
from lyra_opt.instances.library import library
from lyra_opt.reclaim import Instance
from lyra_opt.reclaim.bounds.dual_bound import interchangeable_bound, rigid_bound
from lyra_opt.reclaim.heuristics.greedy import LyraGreedy

FLEET = sized(520, 20)
"""Number of servers in Lyra's inference cluster (EuroSys 2023), with 8 GPUs each."""
FLEETS = sized((1_250, 2_500, 5_000, 10_000, 20_000), (20, 40))

FAMILIES = ("bf-trace", "bf-dist", "rnd-trace", "rnd-dist", "messy-trace", "messy-dist")
"""Families that resemble fleets of servers in use."""

COMMANDS = (
    "--help",
    "solvers",
    "solve EXAMPLE --solver lyra-greedy",
    "solve EXAMPLE",  # runs the heuristic and the exact solver
    "solve EXAMPLE --solver exact",
    "solve SEARCHED --solver exact",
)
"""EXAMPLE has 6 servers and 4 jobs; SEARCHED has 50 servers and requires the search."""

FIRST_COMMANDS = {
    "solve --certify --exact-time 0": ("messy-trace", FLEET),
    "solve --solver exact": ("messy-dist", sized(200, 20)),
}
"""Commands that compile kernels, with family and number of servers of their instance."""

solve_greedily = partial(LyraGreedy().solve, limits=Limits(), rng=np.random.default_rng(0))
METHODS: Mapping[str, tuple[Callable[[Instance], object], int]] = {
    "lyra-greedy": (solve_greedily, 51),
    "rigid bound": (rigid_bound, 21),
}
"""Functions to time, each with the number of rounds."""


def fleet(family: str, servers: int = FLEET, **more: Any) -> Instance:
    """Return an instance in which 30 % of the servers must be returned."""
    made: Instance = generate(
        "reclaim", family, servers=servers, reclaim=3 * servers // 10, seed=1, **more
    )
    return made


def size_of(instance: Instance) -> dict[str, Any]:
    """Return the numbers of servers, jobs and job-server pairs of an instance, for the results.

    Times grow with ``size``, the number of pairs of a job and a server that hosts it.
    """
    servers, entries = len(instance.servers), instance.index.gpus.entries
    return {"servers": servers, "jobs": len(instance.jobs), "size": entries}


def written(instance: Instance, folder: Path) -> str:
    """Write an instance to a file in a folder, and return its path."""
    path = folder / "instance.json"
    path.write_text(instance_text(find_problem("reclaim"), instance))
    return str(path)


def run(words: list[str], environment: dict[str, str] | None = None) -> None:
    """Run ``python -m WORDS`` and wait until it ends."""
    command = [sys.executable, "-m", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)  # noqa: S603


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_method(benchmark: BenchmarkFixture, method: str, family: str) -> None:
    """Time ``lyra-greedy`` and the bound for rigid jobs on fleets of several families."""
    function, rounds = METHODS[method]
    instance = fleet(family)
    timed(benchmark, function, instance, rounds=rounds, **size_of(instance))


def test_interchangeable_bound(benchmark: BenchmarkFixture) -> None:
    """Time the linear programming bound for jobs that survive with fewer workers."""
    instance = fleet("messy-dist", semantics="interchangeable")
    timed(benchmark, interchangeable_bound, instance, rounds=5, **size_of(instance))


@pytest.mark.parametrize("servers", FLEETS)
def test_growth(benchmark: BenchmarkFixture, servers: int) -> None:
    """Time ``lyra-greedy`` on fleets of growing size."""
    instance = fleet("messy-trace", servers)
    timed(benchmark, solve_greedily, instance, rounds=11, **size_of(instance))


@pytest.mark.parametrize(("solver", "limit_s"), [("lyra-greedy", None), ("mathopt-highs", 2.0)])
def test_isolated(benchmark: BenchmarkFixture, solver: str, limit_s: float | None) -> None:
    """Time a solver in a separate process, with and without a time limit."""
    instance = fleet("messy-trace")
    solve(instance, "lyra-greedy")  # children inherit the modules that this process has loaded
    isolated = partial(solve, time_limit_s=limit_s, isolated=True)
    timed(benchmark, isolated, instance, solver, rounds=5, **size_of(instance))


@pytest.mark.parametrize("command", COMMANDS)
def test_command(benchmark: BenchmarkFixture, command: str, tmp_path: Path) -> None:
    """Time a command as a process, after a first call that may compile kernels."""
    files = {
        "EXAMPLE": str(library().folder / "lyra-figure-5.json"),
        "SEARCHED": written(fleet("messy-dist", servers=50), tmp_path),
    }
    words = ["lyra_opt", *(files.get(word, word) for word in command.split())]
    timed(benchmark, run, words, rounds=9)


@pytest.mark.parametrize("kernels", sized(["anew", "set-up"], ["anew"]))
@pytest.mark.parametrize("command", FIRST_COMMANDS)
def test_first(benchmark: BenchmarkFixture, command: str, kernels: str, tmp_path: Path) -> None:
    """Time the first command on a machine, with and without precompiled kernels."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    if kernels == "set-up":
        run([compile_kernels.__name__], environment)
    instance = fleet(*FIRST_COMMANDS[command])
    words = ["lyra_opt", *command.split(), written(instance, tmp_path)]
    timed(benchmark, run, words, environment, warms_up=False, **size_of(instance))
