"""Carry out simulations: time them, check them, and say which failed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.stopwatch import Stopwatch
from lyra_opt.simulation.metrics import require_conserved
from lyra_opt.simulation.view import PolicyError

if TYPE_CHECKING:
    from lyra_opt.simulation.kernel import Kernel

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


def carry_out(simulation: Kernel, *, scheme: str) -> Effort:
    """Run a simulation and check what it comes to.

    Parameters
    ----------
    simulation
        Which has not run.
    scheme
        Name of the scheme whose run it is.

    Raises
    ------
    SimulationError
        If the policy breaks a rule, a solver has no answer, or GPU-seconds, work or time are not
        conserved; names the scheme, the time and a job.
    """
    cpu_before_s = time.process_time()
    stopwatch = Stopwatch()
    try:
        simulation.run()
    except PolicyError as error:
        raise SimulationError(f"scheme {scheme}: {error}") from error
    effort = Effort(stopwatch.elapsed_s, time.process_time() - cpu_before_s)
    try:
        require_conserved(simulation)
    except AssertionError as error:
        wrong = f"scheme {scheme}, at {simulation.now_s:g} s: the simulation is wrong: {error}"
        raise SimulationError(wrong) from error
    return effort
