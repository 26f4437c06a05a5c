"""Check a schedule of gangs and recompute its mean JCT, independently of the schedulers.

The code is written for clarity, in rational numbers and on the original seconds. It does not use
the arrays of the schedulers, so that an error in these cannot hide here.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from lyra_opt.core.problem import CheckReport
from lyra_opt.simulation.clairvoyant.gangs import Capacity, Gangs

MICROSECOND = Fraction(1, 1_000_000)


def check_starts(gangs: Gangs, capacity: Capacity, start_us: Sequence[int]) -> CheckReport:
    """Check the start times of gangs; report the violations or, if valid, the mean JCT.

    Parameters
    ----------
    gangs, capacity
        The jobs, and the number of GPUs over time.
    start_us
        Start of each job in whole microseconds.

    Notes
    -----
    No job may start before its release, and the running jobs may never hold more GPUs than exist. A
    job holds its GPUs until just before its completion time. Complexity O((jobs + steps) log (jobs
    + steps)), in rational numbers.
    """
    if len(start_us) != len(gangs):
        rule = f"there must be one start per job ({len(gangs)}), not {len(start_us)}"
        return CheckReport.invalid([rule])
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
    lacking = 0  # GPUs held, less GPUs that exist
    for place, (moment_s, gpus) in enumerate(changes):
        lacking += gpus
        is_last = place + 1 == len(changes) or changes[place + 1][0] > moment_s
        if is_last and lacking > 0:
            violations.append(f"from {float(moment_s)} s on, jobs hold {lacking} GPUs too many")
    if violations:
        return CheckReport.invalid(violations)
    return CheckReport(objective=math.fsum(jct_s) / len(jct_s))
