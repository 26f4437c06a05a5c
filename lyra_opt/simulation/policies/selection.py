"""Backfilling around reservations, and preemptive serving, as parts of composed schemes."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lyra_opt.core.rules import require_choice, require_integer, require_number

FIRST_FIT, SERVER_FILLING = RULES = ("first-fit", "server-filling")
"""How `Serving` chooses jobs: in order if they fit; or the widest of the first jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """Reserves own GPUs for waiting jobs; a job may overtake only if it delays no reservation.

    At each pass, the jobs are tried in the order of the queue. A job that does not fit gets the
    earliest time at which its GPUs are free for its whole run time, if running jobs end as
    estimated. Later jobs start only in what these reservations leave. GPUs are only counted, so a
    job with wide workers can start later than reserved.

    Parameters
    ----------
    reservations
        Greatest number of jobs with a reservation: 1 for EASY backfilling, 0 for no limit, which is
        conservative backfilling.
    waited_h
        Hours for which a job must have waited before it gets a reservation; at least 0. Above 0 it
        is a limit on starvation, which is useful with an order by submission.

    Notes
    -----
    Source: Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime
    estimates in scheduling the IBM SP2 with backfilling", IEEE TPDS 12(6), 2001. They reserve once,
    at the submission of a job; this class reserves anew at each pass in the order of the queue. A
    pass takes O(waiting jobs * (running jobs + reservations)).
    """

    reservations: int = 1
    waited_h: float = 0.0

    def __post_init__(self) -> None:
        require_integer("reservations", self.reservations, minimum=0)
        require_number("waited_h", self.waited_h, minimum=0)


class FreeLater:
    """The GPUs of a pool that are free from now on, if running jobs end as estimated.

    Parameters
    ----------
    now_s, free_gpus
        The current time, and the GPUs that are free now.
    ends
        For each running job, its estimated end in seconds and its GPUs.
    """

    def __init__(self, now_s: float, free_gpus: int, ends: Iterable[tuple[float, int]]) -> None:
        self._times_s, self._free = [now_s], [free_gpus]
        for end_s, gpus in sorted(ends):
            self._free[self._at(end_s)] += gpus

    def _at(self, time_s: float) -> int:
        """Return the index of the interval that begins at a time, after splitting one for it."""
        place = bisect_left(self._times_s, time_s)
        if place == len(self._times_s) or self._times_s[place] != time_s:
            self._times_s.insert(place, time_s)
            self._free.insert(place, self._free[place - 1])
        return place

    def start_s(self, gpus: int, run_time_s: float) -> float:
        """Return the earliest time from which GPUs are free for a run time; infinity if never."""
        start_s = self._times_s[0]
        for place, free in enumerate(self._free):
            if self._times_s[place] >= start_s + run_time_s:
                return start_s
            if free < gpus:
                is_last = place + 1 == len(self._free)
                start_s = math.inf if is_last else self._times_s[place + 1]
        return start_s

    def reserve(self, start_s: float, gpus: int, run_time_s: float) -> None:
        """Take GPUs away for a run time; nothing if the start is infinite."""
        if start_s < math.inf:
            first, end = self._at(start_s), self._at(start_s + run_time_s)
            for place in range(first, end):
                self._free[place] -= gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Lets the first jobs of the queue order run on own GPUs, and stops running jobs for them.

    Running and waiting jobs compete in the order of the queue, by what is left of them now.
    `first-fit` chooses every job that still fits, in this order. With the order `shortest-left` it
    is SRPT-k. `server-filling` takes the shortest prefix of the order whose gangs together need at
    least all GPUs, and chooses from it by decreasing gang size. With the order `smallest-work` it
    is ServerFilling-SRPT; with the order `gittins` it is ServerFilling-Gittins.

    If all gangs and the cluster are powers of two, `server-filling` leaves no GPU idle while the
    prefix is that large. Then ServerFilling-SRPT has the least mean response time in heavy traffic,
    if preemption costs nothing. With other sizes, a job that no longer fits is left out. Running
    jobs that are not chosen are stopped only if their GPUs are needed, the last in the order first.

    Parameters
    ----------
    rule
        ``first-fit`` or ``server-filling``.
    interval_s
        Least time between two choices, in seconds; at least 0. Between choices, jobs start on free
        GPUs.

    Notes
    -----
    Sources: Grosof, Scully and Harchol-Balter, "SRPT for multiserver systems", Performance
    Evaluation 127-128, 2018; Grosof, Scully, Harchol-Balter and Scheller-Wolf, "Optimal scheduling
    in the multiserver-job model under heavy traffic", POMACS 6(3), 2022, and the first author's
    simulation of it, whose rank is the remaining time multiplied by the servers of the job.

    A choice takes O(running jobs * log(running jobs) + length of the prefix).
    """

    rule: str = SERVER_FILLING
    interval_s: float = 0.0

    def __post_init__(self) -> None:
        require_choice("rule", self.rule, list(RULES))
        require_number("interval_s", self.interval_s, minimum=0)

    def chosen(self, gangs: Iterable[int], gpus: int) -> Sequence[int]:
        """Return the positions of the jobs to run on `gpus` GPUs.

        Parameters
        ----------
        gangs
            GPUs of each job in the order of the queue; not read further than needed.
        """
        prefix: list[tuple[int, int]] = []
        needed = left = gpus
        for place, gang in enumerate(gangs):
            if self.rule == SERVER_FILLING:
                prefix.append((-gang, place))
                needed -= gang
            elif gang <= needed:
                prefix.append((0, place))
                needed -= gang
            if needed <= 0:
                break
        if self.rule == FIRST_FIT:
            return [place for _, place in prefix]
        found = []
        for gang, place in sorted(prefix):
            if -gang <= left:
                left += gang
                found.append(place)
        return found
