"""Recompute whether a schedule of gangs is valid, and what it is worth, from the jobs alone.

Written for plainness, in rational numbers and on the seconds that were given, and not on the arrays
of the schedulers, so that an error in those cannot hide here.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from lyra_opt.core.problem import CheckReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.simulation.clairvoyant.gangs import Capacity, Gangs

MICROSECOND = Fraction(1, 1_000_000)


def check_starts(gangs: Gangs, capacity: Capacity, start_us: Sequence[int]) -> CheckReport:
    """Return whether gangs may start at such moments, with the weighted mean JCT as objective.

    Parameters
    ----------
    gangs, capacity
        The jobs, and the GPUs that there are.
    start_us
        Whole microseconds, one for each job.

    Notes
    -----
    Each job must start no sooner than its release; at no moment may those that run hold more GPUs
    than there are. A job holds its GPUs up to its completion, but not at it. Complexity
    O((jobs + steps) log (jobs + steps)), in rational numbers.
    """
    if len(start_us) != len(gangs):
        return CheckReport.invalid([f"{len(start_us)} starts are given for {len(gangs)} jobs"])
    fields = (gangs.release_s.tolist(), gangs.run_s.tolist(), gangs.gpus.tolist())
    violations = []
    changes: list[tuple[Fraction, int]] = []
    jct_s = []
    for job, (start, release_s, run_s, gpus) in enumerate(
        zip(map(int, start_us), *fields, strict=True)
    ):
        from_s = start * MICROSECOND
        until_s = from_s + Fraction(run_s)
        if from_s < Fraction(release_s):
            violations.append(
                f"job {job} starts at {float(from_s)} s, but is released at {release_s} s"
            )
        changes += [(from_s, gpus), (until_s, -gpus)]
        jct_s.append(float(until_s - Fraction(release_s)))
    steps = zip(capacity.since_s.tolist(), capacity.gpus.tolist(), strict=True)
    room = 0
    for since_s, gpus in steps:
        changes.append((Fraction(since_s), room - gpus))
        room = gpus
    changes.sort(key=lambda change: change[0])
    lacking = 0  # GPUs held less those that there are
    for place, (moment_s, gpus) in enumerate(changes):
        lacking += gpus
        is_last = place + 1 == len(changes) or changes[place + 1][0] > moment_s
        if is_last and lacking > 0:
            violations.append(f"from {float(moment_s)} s on {lacking} GPUs are held too many")
    if violations:
        return CheckReport.invalid(violations)
    weights = gangs.weight.tolist()
    terms = (weight * each for weight, each in zip(weights, jct_s, strict=True))
    return CheckReport(objective=math.fsum(terms) / math.fsum(weights))
