"""For how long a job may keep its GPUs, and what it costs to give them back and to start again.

Without preemption a lease never ends; rounds are leases that end together, where
renewal in place is free. So a simulation has one event loop, and a `Tenure` says what its clock is.
Other costs of preemption are another `Tenure`: subclass the one that comes nearest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_number

if TYPE_CHECKING:
    from lyra_opt.simulation.job_run import JobRun

PREEMPTION_S = 63.0
"""What a preempted job pays when it starts again; Lyra (EuroSys 2023), section 7.5."""

LEASE_S = 3600.0
"""An hour; so Dally's README suggests, whose sample configuration says 20 units of time."""

HAND_OVER_S_PER_GPU = 1.0
"""For which each GPU of a gang stays idle when it gives them back, for each GPU of the gang; from
Dally's public simulator."""

LEAST_LEASE_S, MOST_LEASE_S = 1.0, 1e9
MOST_HAND_OVER_S_PER_GPU = 1e9
MOST_ROUND_S = 1e9

EPOCH_S, EPOCH_RESTART_S = 60.0, 30.0
"""How often Pollux decides, and what a restart costs a job; in its public simulator."""

ROUND_S = 360.0
"""Gavel (OSDI 2020), in its code; Hadar's is the same, from memory."""

RESTART_S = 10.0
"""What a job pays that moves; Hadar's simulation, from memory with little confidence."""

MERGE_S = 10.0
"""What merging copies costs in a round. Assumed, as much as a restart: not published."""

LEAST_EFFICIENCY = 1e-3
"""Of copies; with less a simulation may hardly come to an end."""


class Tenure:
    """Jobs keep their GPUs until they complete or are stopped; what is lost then is lost."""

    name = "forever"
    length_s = math.inf
    """For how long GPUs are held at most; then the job gives all of them back and waits."""
    frees_at_once = True
    """Whether GPUs that are given back at any moment are free for others at that moment."""
    swaps = True
    """Whether GPUs of jobs that move are free for others that move at the same moment."""
    copy_efficiency: tuple[float, ...] | None = None
    """Where a job may run as copies of itself, what a step of so many is worth."""

    def decides_at_s(self, now_s: float) -> float:
        """Return when a policy is asked about what happens now."""
        return now_s

    def free_s(self, run: JobRun, now_s: float) -> float:  # noqa: ARG002
        """Return when GPUs are free that a job gives back now."""
        return now_s

    def start_pause_s(self, run: JobRun) -> float:  # noqa: ARG002
        """Return for how long a job that waited holds its GPUs before it goes on."""
        return 0.0

    def move_pause_s(self, run: JobRun) -> float:
        """Return the same for a job that goes on elsewhere without having waited."""
        return self.start_pause_s(run)

    def left_when_stopped(self, run: JobRun) -> float:
        """Return what is left of the work of a job that is stopped now."""
        return run.left


@dataclass(frozen=True, slots=True, kw_only=True)
class Forever(Tenure):
    """Nobody's time runs out. A job that is stopped starts anew unless it has checkpoints.

    Parameters
    ----------
    preemption_s
        Seconds that a job that was preempted holds its GPUs for before it goes on.
    """

    preemption_s: float = PREEMPTION_S

    def __post_init__(self) -> None:
        require_number("preemption_s", self.preemption_s, minimum=0)

    def start_pause_s(self, run: JobRun) -> float:
        """See `Tenure`."""
        return self.preemption_s if run.preemptions else 0.0

    def move_pause_s(self, run: JobRun) -> float:  # noqa: ARG002
        """See `Tenure`; a move is planned, so that a checkpoint is written first."""
        return self.preemption_s

    def left_when_stopped(self, run: JobRun) -> float:
        """See `Tenure`."""
        return run.left if run.job.checkpoints else run.work


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases(Tenure):
    """Jobs give their GPUs back after a while, keep what they did, and compete again.

    So the order in which a policy serves jobs is also its rule of preemption. Source: Dally (arXiv
    2401.16492) as its public simulator has it. Time is continuous (ours; there it goes in chunks of
    about a second).

    Parameters
    ----------
    lease_s
        For how long a job holds its GPUs before it gives all of them back, from 1 to 1e9.
    hand_over_s_per_gpu
        For how long released GPUs stay idle, for each GPU of the job that released them, from 0
        to 1e9.
    """

    lease_s: float = LEASE_S
    hand_over_s_per_gpu: float = HAND_OVER_S_PER_GPU

    def __post_init__(self) -> None:
        for name, least, most in (
            ("lease_s", LEAST_LEASE_S, MOST_LEASE_S),
            ("hand_over_s_per_gpu", 0.0, MOST_HAND_OVER_S_PER_GPU),
        ):
            number = require_number(name, getattr(self, name), minimum=least)
            if number > most:
                raise FieldError(name, getattr(self, name), f"must be at most {most:g}")
            object.__setattr__(self, name, number)

    name = "leases"
    frees_at_once = swaps = False

    @property
    def length_s(self) -> float:  # type: ignore[override]
        """See `Tenure`."""
        return self.lease_s

    def free_s(self, run: JobRun, now_s: float) -> float:
        """See `Tenure`."""
        return now_s + self.hand_over_s_per_gpu * run.held_gpus

    def move_pause_s(self, run: JobRun) -> float:
        """See `Tenure`; a job that moves waits for its own hand-over."""
        return self.hand_over_s_per_gpu * run.job.min_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds(Tenure):
    """All leases end together, where GPUs come free, and renewal in place costs nothing.

    The GPUs of a job that completes before are free only then, but its completion counts when it
    is.

    Parameters
    ----------
    round_s
        Length of a round, above 0 and at most 1e9. Rounds begin at its multiples.
    restart_s
        Lost to a job, or a copy of it, at the start of a round in which it runs elsewhere than in
        the round before, its first one included: a checkpoint is written and read, and the
        program is started.
    merge_s
        Lost to a job at the end of a round in which it has more than one copy.
    copy_efficiency
        phi(1), phi(2), ...: what a step of so many copies is worth, above 0 and at most 1, phi(1)
        = 1; the last one holds for more copies. Averaging models may cost steps.

    Raises
    ------
    FieldError
        If a value breaks its rule, or restart and merge leave nothing of a round.
    """

    round_s: float = ROUND_S
    restart_s: float = RESTART_S
    merge_s: float = MERGE_S
    copy_efficiency: tuple[float, ...] = (1.0,)

    name = "rounds"
    frees_at_once = False

    def __post_init__(self) -> None:
        for name in ("round_s", "restart_s", "merge_s"):
            number = require_number(name, getattr(self, name), minimum=0, above=name == "round_s")
            object.__setattr__(self, name, number)
        if self.round_s > MOST_ROUND_S:
            raise FieldError("round_s", self.round_s, f"must be at most {MOST_ROUND_S:g}")
        for name in ("restart_s", "merge_s"):
            if getattr(self, name) >= self.round_s:
                rule = f"must be below round_s, {self.round_s:g}"
                raise FieldError(name, getattr(self, name), rule)
        if self.restart_s + self.merge_s >= self.round_s:
            rule = f"must leave some of a round of {self.round_s:g} s beside restart_s"
            raise FieldError("merge_s", self.merge_s, rule)
        if not self.copy_efficiency:
            raise FieldError("copy_efficiency", [], "must not be empty")
        for position, share in enumerate(self.copy_efficiency):
            field_name = f"copy_efficiency[{position}]"
            if require_number(field_name, share, minimum=LEAST_EFFICIENCY) > 1:
                raise FieldError(field_name, share, "must be at most 1")
        if self.copy_efficiency[0] != 1:
            raise FieldError("copy_efficiency[0]", self.copy_efficiency[0], "must be 1")

    def decides_at_s(self, now_s: float) -> float:
        """See `Tenure`."""
        return self.round_from(now_s) * self.round_s

    def free_s(self, run: JobRun, now_s: float) -> float:  # noqa: ARG002
        """See `Tenure`."""
        return self.decides_at_s(now_s)

    def start_pause_s(self, run: JobRun) -> float:  # noqa: ARG002
        """See `Tenure`."""
        return self.restart_s

    def efficiency(self, copies: int) -> float:
        """Return phi of so many copies, at least 1."""
        return self.copy_efficiency[min(copies, len(self.copy_efficiency)) - 1]

    def round_from(self, time_s: float) -> int:
        """Return the number of the first round that begins at a moment or after it."""
        return _period_from(time_s, self.round_s)


def _period_from(time_s: float, period_s: float) -> int:
    """Return the number of the first period that begins at a moment or after it."""
    number = math.floor(time_s / period_s)
    while number * period_s < time_s:
        number += 1
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Epochs(Tenure):
    """GPUs are given as epochs begin; a job keeps its progress whatever becomes of it.

    The GPUs of a job that completes before are given to others then. Source: Pollux (OSDI 2021),
    section 4.2, and its public simulator.

    Parameters
    ----------
    epoch_s
        Length of an epoch, above 0 and at most 1e9. Epochs begin at its multiples.
    restart_s
        For how long a job holds GPUs before it goes on, whenever it gets others than it had, its
        first ones included.
    """

    epoch_s: float = EPOCH_S
    restart_s: float = EPOCH_RESTART_S

    name = "epochs"
    frees_at_once = False

    def __post_init__(self) -> None:
        for name in ("epoch_s", "restart_s"):
            number = require_number(name, getattr(self, name), minimum=0, above=name == "epoch_s")
            object.__setattr__(self, name, number)
        if self.epoch_s > MOST_ROUND_S:
            raise FieldError("epoch_s", self.epoch_s, f"must be at most {MOST_ROUND_S:g}")

    def decides_at_s(self, now_s: float) -> float:
        """See `Tenure`."""
        return _period_from(now_s, self.epoch_s) * self.epoch_s

    def free_s(self, run: JobRun, now_s: float) -> float:  # noqa: ARG002
        """See `Tenure`."""
        return self.decides_at_s(now_s)

    def start_pause_s(self, run: JobRun) -> float:  # noqa: ARG002
        """See `Tenure`."""
        return self.restart_s


TENURES = (Forever.name, Leases.name, Rounds.name, Epochs.name)
"""The names of all of the toolkit."""
