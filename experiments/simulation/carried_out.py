"""Carry out simulations, whichever engine: time them, check them, and say which failed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lyra_opt.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from experiments.simulation.drawn import Named

LEAST_CPU_TIME_S = 1e-9


class SimulationError(Exception):
    """A simulation came to no result, or to one that cannot be right."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What a simulation took.

    Parameters
    ----------
    wall_time_s, cpu_time_s
        Of the simulation alone; loading solvers and compiling their kernels not counted in the
        former.
    """

    wall_time_s: float
    cpu_time_s: float


def jobs_per_cpu_s(jobs: int, cpu_time_s: float) -> float:
    """Return how many jobs a simulation got done in a second of the processor's."""
    return jobs / max(cpu_time_s, LEAST_CPU_TIME_S)


def carry_out(
    run: Callable[[], object],
    *,
    scheme: str,
    failures: type[Exception] | tuple[type[Exception], ...],
    require_conserved: Callable[[], None],
) -> Effort:
    """Run a simulation and check what it comes to.

    Parameters
    ----------
    run
        Carries it out.
    scheme
        Whose run it is.
    failures
        What is raised where the scheme has no answer, or a wrong one.
    require_conserved
        Raises `AssertionError` if what comes out cannot be right.

    Raises
    ------
    SimulationError
        If the scheme or the check fails; names the scheme.
    """
    cpu_before_s = time.process_time()
    stopwatch = Stopwatch()
    try:
        run()
    except failures as error:
        raise SimulationError(f"scheme {scheme}: {error}") from error
    effort = Effort(stopwatch.elapsed_s, time.process_time() - cpu_before_s)
    try:
        require_conserved()
    except AssertionError as error:
        raise SimulationError(f"scheme {scheme}: the simulation is wrong: {error}") from error
    return effort


def since(
    progress: Callable[[float], None] | None, first_s: float
) -> Callable[[float], None] | None:
    """Return what is given the time of a simulation and tells `progress` that since `first_s`."""
    return None if progress is None else lambda now_s: progress(now_s - first_s)


SchemeT = TypeVar("SchemeT", bound="Named")
ReplayT = TypeVar("ReplayT")


def replay_each(
    schemes: Sequence[SchemeT],
    expected_s: float,
    replay: Callable[[SchemeT, Callable[[float], None]], ReplayT],
) -> list[ReplayT]:
    """Run schemes one by one and show how far they are; those that fail say so and are left out.

    Parameters
    ----------
    schemes
        By name.
    expected_s
        How long a run takes in simulated time, about.
    replay
        Runs a scheme; is given it, and what is told the simulated seconds so far.
    """
    from experiments.simulation.printing import say
    from experiments.simulation.progress import simulated_time

    done = []
    for scheme in schemes:
        try:
            with simulated_time(scheme.name, expected_s) as show:
                done.append(replay(scheme, show))
        except SimulationError as error:
            say(f"error: {error}")
    return done
