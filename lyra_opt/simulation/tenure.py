"""Tenures: how long jobs keep their GPUs, and what preempting and restarting them costs.

Without preemption, a tenure never ends. Rounds are leases that all end together and are renewed in
place without cost. So one event loop suffices, and a `Tenure` sets its clock. To model other costs
of preemption, subclass the closest `Tenure`.
"""

import math
from dataclasses import dataclass

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_number
from lyra_opt.simulation.job_run import JobRun

PREEMPTION_S = 63.0
"""Seconds that a preempted job loses when it starts again; Lyra (EuroSys 2023), section 7.5."""

LEASE_S = 3600.0
"""One hour, as Dally's README suggests; its sample configuration uses 20 units of time."""

HAND_OVER_S_PER_GPU = 1.0
"""Seconds for which released GPUs stay idle, for each GPU of the gang; from Dally's public
simulator.
"""

LEAST_LEASE_S, MOST_LEASE_S = 1.0, 1e9
MOST_HAND_OVER_S_PER_GPU = 1e9
MOST_ROUND_S = 1e9

EPOCH_S, EPOCH_RESTART_S = 60.0, 30.0
"""Pollux's interval between decisions, and the cost of a restart, in its public simulator."""

ROUND_S = 360.0
"""From Gavel's code (OSDI 2020); Hadar uses the same length, from memory."""

RESTART_S = 10.0
"""Seconds that a move costs a job in Hadar's simulation; from memory with little confidence."""

MERGE_S = 10.0
"""Seconds that merging copies costs in a round. Not published; assumed to equal a restart."""

LEAST_EFFICIENCY = 1e-3
"""Least efficiency of copies; with less, a simulation may take practically for ever."""


class Tenure:
    """A rule for how long jobs keep their GPUs, and for the cost of stopping and moving jobs.

    In this base class, jobs keep their GPUs until they complete or are stopped.
    """

    name = "forever"
    length_s = math.inf
    """Longest time for which a job holds its GPUs; then it gives all of them back and waits."""
    frees_at_once = True
    """Whether GPUs that a job gives back are always free for other jobs at the same time."""
    swaps = True
    """Whether jobs that move at the same time can take each other's GPUs."""
    copy_efficiency: tuple[float, ...] | None = None
    """Value of a step of 1, 2, ... copies of a job, relative to a single copy; None if jobs have no
    copies.
    """

    def decides_at_s(self, now_s: float) -> float:
        """Return when the policy is called for an event that happens at `now_s`."""
        return now_s

    def free_s(self, run: JobRun, now_s: float) -> float:  # noqa: ARG002
        """Return when the GPUs that a job gives back at `now_s` become free."""
        return now_s

    def start_pause_s(self, run: JobRun) -> float:  # noqa: ARG002
        """Return the seconds for which a waiting job holds its new GPUs before it works."""
        return 0.0

    def move_pause_s(self, run: JobRun) -> float:
        """Return the pause, in seconds, when a running job moves to other GPUs."""
        return self.start_pause_s(run)

    def left_when_stopped(self, run: JobRun) -> float:
        """Return the remaining work of a job that is stopped now, including lost work."""
        return run.left


@dataclass(frozen=True, slots=True, kw_only=True)
class Forever(Tenure):
    """A tenure without end; a stopped job loses its work unless it has checkpoints.

    Parameters
    ----------
    preemption_s
        Seconds for which a preempted job holds its GPUs before it works again.
    """

    preemption_s: float = PREEMPTION_S

    def __post_init__(self) -> None:
        require_number("preemption_s", self.preemption_s, minimum=0)

    def start_pause_s(self, run: JobRun) -> float:
        """Return `preemption_s` seconds for a job that has been preempted before, else 0."""
        return self.preemption_s if run.preemptions else 0.0

    def move_pause_s(self, run: JobRun) -> float:  # noqa: ARG002
        """Return the pause of a move in seconds: `preemption_s`, as after a preemption.

        A move is planned, so the job writes a checkpoint first.
        """
        return self.preemption_s

    def left_when_stopped(self, run: JobRun) -> float:
        """Return the remaining work of a job with checkpoints, else its whole work."""
        return run.left if run.job.checkpoints else run.work


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases(Tenure):
    """A tenure in which jobs give their GPUs back after a lease and compete for GPUs again.

    Jobs keep their progress. So the queue order of a policy also decides which jobs are preempted.
    Source: Dally (arXiv 2401.16492), as in its public simulator. Time is continuous in this
    implementation; that simulator steps by about a second.

    Parameters
    ----------
    lease_s
        Seconds for which a job holds its GPUs before it gives all of them back, from 1 to 1e9.
    hand_over_s_per_gpu
        Seconds for which released GPUs stay idle, for each GPU of the job, from 0 to 1e9.
    """

    lease_s: float = LEASE_S
    hand_over_s_per_gpu: float = HAND_OVER_S_PER_GPU

    def __post_init__(self) -> None:
        for name, least, most in (
            ("lease_s", LEAST_LEASE_S, MOST_LEASE_S),
            ("hand_over_s_per_gpu", 0.0, MOST_HAND_OVER_S_PER_GPU),
        ):
            number = require_number(name, getattr(self, name), minimum=least, maximum=most)
            object.__setattr__(self, name, number)

    name = "leases"
    frees_at_once = swaps = False

    @property
    def length_s(self) -> float:  # type: ignore[override]
        """The length of a lease."""
        return self.lease_s

    def free_s(self, run: JobRun, now_s: float) -> float:
        """Return when the GPUs are free: after `hand_over_s_per_gpu` for each GPU of the job."""
        return now_s + self.hand_over_s_per_gpu * run.held_gpus

    def move_pause_s(self, run: JobRun) -> float:
        """Return the pause of a move: the hand-over time of the job's own GPUs."""
        return self.hand_over_s_per_gpu * run.job.min_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds(Tenure):
    """A tenure of fixed rounds: GPUs are reassigned at round starts, and staying costs nothing.

    If a job completes during a round, its GPUs become free at the end of the round, but its
    completion time is the time at which it completes.

    Parameters
    ----------
    round_s
        Length of a round, above 0 and at most 1e9. Rounds begin at multiples of it.
    restart_s
        Seconds that a job, or a copy of it, loses at the start of a round if it did not run on the
        same GPUs in the round before, including its first round. A checkpoint is written and read,
        and the program is started.
    merge_s
        Seconds that a job loses at the end of a round in which it has several copies.
    copy_efficiency
        phi(1), phi(2), ...: value of a step with this number of copies, above 0 and at most 1, with
        phi(1) = 1. The last value applies to more copies. Averaging models may cost steps.

    Raises
    ------
    FieldError
        If a value breaks its rule, or restarting and merging take the whole round.
    """

    round_s: float = ROUND_S
    restart_s: float = RESTART_S
    merge_s: float = MERGE_S
    copy_efficiency: tuple[float, ...] = (1.0,)

    name = "rounds"
    frees_at_once = False

    def __post_init__(self) -> None:
        for name in ("round_s", "restart_s", "merge_s"):
            limits = {"minimum": 0, "maximum": MOST_ROUND_S}
            number = require_number(name, getattr(self, name), above=name == "round_s", **limits)
            object.__setattr__(self, name, number)
        for name in ("restart_s", "merge_s"):
            if getattr(self, name) >= self.round_s:
                rule = f"must be below round_s, {self.round_s:g}"
                raise FieldError(name, getattr(self, name), rule)
        if self.restart_s + self.merge_s >= self.round_s:
            rule = f"merge_s and restart_s together must be below round_s, {self.round_s:g}"
            raise FieldError("merge_s", self.merge_s, rule)
        if not self.copy_efficiency:
            raise FieldError("copy_efficiency", [], "must not be empty")
        for position, share in enumerate(self.copy_efficiency):
            field_name = f"copy_efficiency[{position}]"
            require_number(field_name, share, minimum=LEAST_EFFICIENCY, maximum=1)
        if self.copy_efficiency[0] != 1:
            raise FieldError("copy_efficiency[0]", self.copy_efficiency[0], "must be 1")

    def decides_at_s(self, now_s: float) -> float:
        """Return the start of the first round at or after `now_s`."""
        return self.round_from(now_s) * self.round_s

    def free_s(self, run: JobRun, now_s: float) -> float:  # noqa: ARG002
        """Return the end of the round, when all released GPUs become free."""
        return self.decides_at_s(now_s)

    def start_pause_s(self, run: JobRun) -> float:  # noqa: ARG002
        """Return `restart_s`, the seconds that each start of a job costs."""
        return self.restart_s

    def efficiency(self, copies: int) -> float:
        """Return the value phi of a training step by `copies` copies of a job, relative to one."""
        return self.copy_efficiency[min(copies, len(self.copy_efficiency)) - 1]

    def round_from(self, time_s: float) -> int:
        """Return the number of the first round that begins at or after `time_s`."""
        return _period_from(time_s, self.round_s)


def _period_from(time_s: float, period_s: float) -> int:
    """Return the number of the first period that begins at or after `time_s`."""
    number = math.floor(time_s / period_s)
    while number * period_s < time_s:
        number += 1
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Epochs(Tenure):
    """A tenure in which GPUs are reallocated at the start of each epoch; jobs keep their progress.

    If a job completes during an epoch, its GPUs are reallocated at the end of the epoch. Source:
    Pollux (OSDI 2021), section 4.2, and its public simulator.

    Parameters
    ----------
    epoch_s
        Length of an epoch, above 0 and at most 1e9. Epochs begin at multiples of it.
    restart_s
        Seconds for which a job holds new GPUs before it works, whenever its GPUs change, including
        its first GPUs; at most 1e9.
    """

    epoch_s: float = EPOCH_S
    restart_s: float = EPOCH_RESTART_S

    name = "epochs"
    frees_at_once = False

    def __post_init__(self) -> None:
        for name in ("epoch_s", "restart_s"):
            limits = {"minimum": 0, "maximum": MOST_ROUND_S}
            number = require_number(name, getattr(self, name), above=name == "epoch_s", **limits)
            object.__setattr__(self, name, number)

    def decides_at_s(self, now_s: float) -> float:
        """Return the start of the first epoch at or after `now_s`."""
        return _period_from(now_s, self.epoch_s) * self.epoch_s

    def free_s(self, run: JobRun, now_s: float) -> float:  # noqa: ARG002
        """Return the end of the epoch, when all released GPUs become free."""
        return self.decides_at_s(now_s)

    def start_pause_s(self, run: JobRun) -> float:  # noqa: ARG002
        """Return `restart_s`, the seconds that each start of a job costs."""
        return self.restart_s


TENURES = (Forever.name, Leases.name, Rounds.name, Epochs.name)
"""The names of the built-in tenures."""
