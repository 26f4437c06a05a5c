"""Solvers and families that misbehave; `conftest.plugin` registers them as a package would."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import Solver
from lyra_opt.instances.family import find_family
from lyra_opt.reclaim.checker import check
from lyra_opt.reclaim.instance import Instance, Solution


def first_servers(instance):
    """Give back the first servers of the file."""
    chosen = [server.id for server in instance.servers if server.on_loan]
    solution = Solution(tuple(chosen[: instance.reclaim_servers]))
    return SolveResult(
        status=Status.FEASIBLE, solution=solution, objective=check(instance, solution).objective
    )


def boast(instance):
    """Claim that the first servers are optimal."""
    result = first_servers(instance)
    return SolveResult(
        status=Status.OPTIMAL,
        solution=result.solution,
        objective=result.objective,
        dual_bound=result.objective,
    )


def fail(instance):
    raise ZeroDivisionError("this solver always fails")


def die(instance):
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def leave(instance):
    raise SystemExit(3)


GATE = "LYRA_OPT_TEST_GATE"


def wait(instance):
    """Wait, on all instances but the first two, until there is no such file."""
    gate = os.environ.get(GATE)
    while gate and not instance.name.endswith(("seed0", "seed1")) and os.path.exists(gate):  # noqa: PTH110
        time.sleep(0.05)
    return first_servers(instance)


@dataclass(frozen=True)
class FakeSolver(Solver):
    """A solver around a function."""

    name: str
    answer: Callable[[Instance], SolveResult[Solution]]
    problem: str = "reclaim"
    variants: tuple[str, ...] = ("rigid", "interchangeable")
    exact_variants: tuple[str, ...] = ("rigid", "interchangeable")  # warmed up once a process only
    gives_bound: bool = False

    def availability(self):
        return None

    def supports(self, instance):
        return None

    def solve(self, instance, **_):
        return self.answer(instance)


FIRST_SERVERS = FakeSolver("first-servers", first_servers)
BOASTING = FakeSolver("boasting", boast)
RAISING = FakeSolver("raising", fail)
DYING = FakeSolver("dying", die)
LEAVING = FakeSolver("leaving", leave)
WAITING = FakeSolver("waiting", wait)


@dataclass(frozen=True)
class BreakingFamily:
    """A family that takes any parameters and fails on odd seeds."""

    name: str = "breaking"
    problem: str = "reclaim"
    version: int = 1
    summary: str = "fails"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def check(self, parameters):
        return None

    def is_seeded(self, parameters):
        return True

    def known_optimum(self, parameters):
        return None

    def generate(self, parameters, seed):
        if seed % 2:
            raise LookupError("no instance for an odd seed")
        return find_family("reclaim", "rnd-trace").generate(parameters, seed)


BREAKING = BreakingFamily()
