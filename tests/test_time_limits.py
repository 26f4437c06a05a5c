"""Every registered solver looks at the clock: on one that moves on by each look at it."""

from types import SimpleNamespace

import pytest

from lyra_opt.allocation.schedules import evaluator
from lyra_opt.core import stopwatch
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, Status, StoppedBy
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.core.solving import solve_and_check
from tests.tables import generated, tables

TABLES = tables(__file__)
INSTANCES = generated(TABLES["instances"])
TAKEN = [
    pytest.param(problem, name, instance, id=f"{problem}.{name}-{instance.variant}")
    for problem, instances in INSTANCES.items()
    for instance in instances
    for _, name in solver_names(problem)
    if find_solver(problem, name).supports(instance) is None
]


WITHOUT_SOLUTION = {"lp-highs", "gavel-rounds", "water-filling"}
"""Relaxations, and rules whose first steps are no shares yet."""

LATE_LOOKS = 40
"""Looks at the clock once the time is over: of whatever closes a loop, and what is around it."""


class LookedAt:
    """A clock on which each look takes a second, and nothing else takes any time."""

    def __init__(self):
        self.looks = 0

    def perf_counter(self):
        self.looks += 1
        return float(self.looks)


@pytest.fixture
def clock(monkeypatch):
    """The clock of all solvers."""
    clock = LookedAt()
    monkeypatch.setattr(stopwatch, "time", SimpleNamespace(perf_counter=clock.perf_counter))
    # As often as with thousands of jobs.
    monkeypatch.setattr(evaluator, "STEPS_BETWEEN_LOOKS_AT_THE_CLOCK", 1)
    return clock


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("problem", "name", "instance"), TAKEN)
def test_what_can_be_slow_is_stopped_by_a_limit_of_0(problem, name, instance):
    """Unless it proves its answer before it looks at the clock."""
    answer = solve_and_check(
        find_problem(problem), instance, find_solver(problem, name), limits=Limits(time_s=0)
    )
    assert answer.status is not Status.ERROR, answer.message
    if name in TABLES["quick"][problem]:
        assert answer.stopped_by is None
        assert answer.solution is not None
    else:
        assert answer.stopped_by is StoppedBy.TIME or answer.status is Status.OPTIMAL
        # Of some problems, to find any solution is hard.
        is_hard = problem in ("heterogeneous", "preemption") and instance.variant.sense == "min"
        assert answer.solution is not None or is_hard or name in WITHOUT_SOLUTION


@pytest.mark.parametrize("limit_s", [3, 30])
@pytest.mark.parametrize(
    ("problem", "name", "instance"),
    [
        case
        for case in TAKEN
        if "formulations" not in type(find_solver(*map(str, case.values[:2]))).__module__
    ],
)
def test_a_solver_stops_soon_after_the_time_is_over(clock, problem, name, instance, limit_s):
    """Wherever in its work that is; and what it says of the instance then is true.

    Backends keep a clock of their own.
    """
    answer = solve_and_check(
        find_problem(problem), instance, find_solver(problem, name), limits=Limits(time_s=limit_s)
    )
    assert answer.status is not Status.ERROR, answer.message
    assert clock.looks <= limit_s + LATE_LOOKS
