"""Compile the numba kernels into the cache: ``python -m lyra_opt.experiments.compile_kernels``.

Otherwise the first solver that needs a kernel on a machine waits until it is compiled.
"""

import multiprocessing
import sys
from contextlib import suppress
from functools import cache
from typing import Any

from lyra_opt.core import kernels
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.core.stopwatch import OutOfTimeError, limited_to
from lyra_opt.experiments.simulation.measuring.proving import prove
from lyra_opt.experiments.simulation.scenario.loading import Change, load_scenario
from lyra_opt.instances.family import generate
from lyra_opt.simulation.bounds.scope import Reading

SIZES = (10, 60)
"""Numbers of jobs or servers; instances of these sizes use every kernel of a solver."""

LIMIT_S = 0.3

VARIANTS = {
    "reclaim": ("rigid", "interchangeable"),
    "allocation": ("jct_reduction", "two_phase", "joint", "mean_jct"),
    "heterogeneous": ("utility", "makespan", "mean_jct", "max_min_share", "throughput"),
    "network": ("epoch", "work_rate"),
    "preemption": ("none", "victims"),
}


def parameters_of(problem: str, variant: str, size: int) -> dict[str, Any]:
    """Return the generator family and parameters for an instance with `size` jobs or servers."""
    parameters: dict[str, dict[str, Any]] = {
        "reclaim": {"family": "messy-dist", "servers": size, "semantics": variant},
        "allocation": {
            "family": "load",
            "jobs": size,
            "objective": variant,
            "load_percent": 150,
            "release_percent": 50 if variant == "mean_jct" else 0,
            "gpus_per_worker": "mixed",
        },
        "heterogeneous": {
            "family": "offline",
            "jobs": size,
            "objective": variant,
            "gpus_of_type": 4 * max(1, size // 20),
            **({} if variant in ("max_min_share", "throughput") else {"rounds": 100}),
        },
        "network": {
            "family": "epoch",
            "jobs": size,
            "objective": variant,
            "timers": "none",
            "racks": 4,
            "machines_per_rack": 8,
        },
        "preemption": {"family": "crowded", "nodes": size, "moves": variant, "pods": size // 5},
    }
    return parameters[problem]


@cache
def has_backend(problem: str, name: str) -> bool:
    """Return whether a solver passes a model to a general solver such as HiGHS or CP-SAT."""
    module = type(find_solver(problem, name)).__module__
    # The HiGHS models of time shares are in lyra_opt, because Gavel's rounds solve them.
    return ".formulations" in module or module.endswith("_model")


def compile_kernels(problem: str) -> None:
    """Compile a problem's numba kernels by running its bound and its solvers without a backend."""
    kernels.COMPILE_FROM_WORK = 0
    names = [name for _, name in solver_names(problem) if not has_backend(problem, name)]
    for variant in VARIANTS[problem]:
        for size in SIZES:
            instance = generate(problem, **parameters_of(problem, variant, size))
            for name in names:
                solver = find_solver(problem, name)
                if not (solver.availability() or solver.supports(instance)):
                    solver.solve(instance, limits=Limits(time_s=LIMIT_S), rng=generator(seed=0))
            with suppress(OutOfTimeError), limited_to(Limits(time_s=LIMIT_S)):
                find_problem(problem).dual_bound(instance)


def compile_cluster_kernels() -> None:
    """Compile the kernels of bounds, and of schedules found, for the mean JCT of whole clusters."""
    kernels.COMPILE_FROM_WORK = 0
    for name, searches in (("lyra-paper", False), ("plain", True)):
        jobs = {"workload": "lyra-like", "parameters": {"days": 1}}
        changes = [Change("cluster.servers", 1), Change("jobs", jobs)]
        readings = (Reading.RESTART,) if searches else tuple(Reading)
        for _ in prove(load_scenario(name, changes), readings, searches=searches):
            pass


def main() -> int:
    """Compile the kernels in several processes; return the exit code."""
    with multiprocessing.get_context("spawn").Pool() as pool:
        clusters = pool.apply_async(compile_cluster_kernels)
        pool.map(compile_kernels, VARIANTS, chunksize=1)
        clusters.get()
    return 0


if __name__ == "__main__":
    sys.exit(main())
