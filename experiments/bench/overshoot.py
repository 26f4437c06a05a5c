"""The figures of time limits: by how much each solver overshoots a short one, whatever the size."""

from __future__ import annotations

import multiprocessing
from collections import defaultdict
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from lyra_opt.core.result import Limits
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.core.stopwatch import Stopwatch
from lyra_opt.experiments.bench.timing import Figure, timed_figure
from lyra_opt.instances.family import generate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection

LIMIT_S = 0.3
HARD_STOP_S = 30.0
"""After which a run that has not ended is killed; what a process loads once is within it."""
OWN_TARGET_S, BACKEND_TARGET_S = 0.2, 1.0
SIZES = (300, 5_000, 50_000)
LARGEST = 10_000
"""Jobs of the families of two of the problems."""
WARM_UP_SIZE = 10


class Case(NamedTuple):
    """An instance of a family."""

    problem: str
    parameters: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What it is, in words."""
        shown = self.parameters.get("objective", self.parameters.get("semantics"))
        size = self.parameters.get("jobs", self.parameters.get("servers"))
        return f"{shown}, {size:,}"


def case_of(problem: str, variant: str, size: int) -> Case:
    """Return an instance of about that many jobs or servers in which there is much to decide."""
    jobs = min(size, LARGEST)
    parameters: dict[str, Any] = {
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
            "jobs": jobs,
            "objective": variant,
            "gpus_of_type": 4 * max(1, jobs // 20),
            **({} if variant in ("max_min_share", "throughput") else {"rounds": 100}),
        },
        "network": {
            "family": "epoch",
            "jobs": jobs,
            "objective": variant,
            "timers": "none",
            "racks": max(4, jobs // 40),
            "machines_per_rack": 8,
        },
    }
    return Case(problem, parameters[problem])


VARIANTS = {
    "reclaim": ("rigid", "interchangeable"),
    "allocation": ("jct_reduction", "two_phase", "joint", "mean_jct"),
    "heterogeneous": ("utility", "makespan", "mean_jct", "max_min_share", "throughput"),
    "network": ("epoch", "work_rate"),
}


def overshoot_figures(sizes: Sequence[int] = SIZES) -> Iterator[Figure]:
    """Run every solver on every size of every variant that it takes, in a process with an end."""
    for problem, variants in VARIANTS.items():
        overshoots: dict[str, dict[str, float]] = defaultdict(dict)
        for variant, size in product(variants, sizes):
            case = case_of(problem, variant, size)
            for name, overshoot_s in _overshoots(case, [name for _, name in solver_names(problem)]):
                overshoots[name][case.name] = overshoot_s
        for name, of_case in overshoots.items():
            worst = max(of_case, key=of_case.__getitem__)
            target_s = OWN_TARGET_S if is_own(problem, name) else BACKEND_TARGET_S
            times_s = list(of_case.values())
            yield replace(
                timed_figure(f"{problem}.{name}, beyond {LIMIT_S:g} s", times_s, remark=worst),
                statistic="maximum",
                measured=1000 * max(times_s),
                target=1000 * target_s,
                unit="ms",
            )


def is_own(problem: str, name: str) -> bool:
    """Whether a solver runs no backend, whose looks at the clock are its own."""
    return ".formulations" not in type(find_solver(problem, name)).__module__


def _overshoots(case: Case, names: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield by how much each solver that takes the instance overshoots the limit; seconds."""
    left = list(names)
    context = multiprocessing.get_context("spawn")
    while left:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_run_all, args=(case, left, there), daemon=True)
        process.start()
        there.close()
        try:
            here.recv()  # the instance is made
            while left and here.poll(HARD_STOP_S):
                name, overshoot_s = here.recv()
                left.remove(name)
                if overshoot_s is not None:
                    yield name, overshoot_s
            if left:
                yield left.pop(0), HARD_STOP_S
        except EOFError:  # the solver has ended its process
            yield left.pop(0), HARD_STOP_S
        finally:
            process.kill()
            process.join()


def _run_all(case: Case, names: Sequence[str], pipe: Connection) -> None:
    """Run solvers one after the other, and send what each has overshot; None where it skips."""
    instance = generate(case.problem, **case.parameters)
    variant = str(instance.variant)
    small = case_of(case.problem, variant, WARM_UP_SIZE)
    warm_up = generate(small.problem, **small.parameters)
    pipe.send(None)
    for name in names:
        solver = find_solver(case.problem, name)
        if solver.availability() or solver.supports(instance):
            pipe.send((name, None))
            continue
        for each in (warm_up, instance):
            stopwatch = Stopwatch()
            solver.solve(each, limits=Limits(time_s=LIMIT_S), rng=generator(seed=0))
            overshoot_s = max(0.0, stopwatch.elapsed_s - LIMIT_S)
        pipe.send((name, overshoot_s))
