"""Data of two models of mean JCT in which time is divided into intervals.

One model is a relaxation and gives a lower bound. The solutions of the other model are feasible
schedules and give an upper bound.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from lyra_opt.allocation.clock_times import from_first_release
from lyra_opt.allocation.exact.mean_jct.solver import best_priority_schedule
from lyra_opt.allocation.instance import Objective, Schedule, SchedulePiece
from lyra_opt.allocation.problem import PROBLEM
from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.backends.backend import CostUnit
from lyra_opt.formulations.exact_model import ExactModelSolver, Formulation
from lyra_opt.formulations.exact_solver import ABSOLUTE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lyra_opt.allocation.instance import ElasticJob, Instance
    from lyra_opt.formulations.backends.backend import Values
    from lyra_opt.formulations.exact_solver import Incumbent

    ByJobAndSlot = Mapping[tuple[int, int], Any]

DEFAULT_SLOTS_OF_RELAXATION = 16
DEFAULT_SLOTS_OF_SCHEDULE = 24
KNOWN_MARGIN = 1e-6
SHORTEST_STEP_S = 1e-300
LONGEST_WAIT = 1e5
"""The largest span of releases per second of work that the backends' tolerances allow."""
RATE_UNIT = 10**6
"""Rates are counted in this fraction of a worker, rounded down."""


@dataclass(frozen=True, slots=True)
class OnGrid(ABC):
    """An instance with objective mean JCT, together with the time grid of a model.

    Parameters
    ----------
    instance
        The instance.
    step_s
        The length of a slot, in seconds.
    slots
        The number of slots.
    known_s
        The mean JCT of a known schedule; infinite if no schedule is known.
    """

    instance: Instance
    step_s: Fraction
    slots: int
    known_s: float

    @classmethod
    @abstractmethod
    def of(cls, instance: Instance, known_s: float, step_s: float | None) -> OnGrid:
        """Return the instance on a grid with slots of `step_s` seconds; None chooses the step."""

    @classmethod
    def supports(cls, instance: Instance, _in_floats: bool) -> Unsupported | None:
        """Return why the time-grid model cannot handle the instance; None if it can."""
        if instance.objective is not Objective.MEAN_JCT:
            return Unsupported("the model supports the objective mean_jct only")
        return None

    @abstractmethod
    def solution(self, values: Values) -> Schedule | None:
        """Return the schedule that values of the variables describe; None for a relaxation."""

    @abstractmethod
    def dual_bound(self, cost: Fraction) -> float | None:
        """Convert a lower bound on the model's cost to one on mean JCT, in seconds, or None."""

    @property
    def is_settled(self) -> bool:
        """Always False: the backend must run, because no start solution is known to be optimal."""
        return False

    @property
    def unit(self) -> CostUnit:
        """The conversion from a sum of completion times in slots to mean JCT in seconds."""
        jobs = self.instance.jobs
        releases_s = sum((Fraction(job.release_s) for job in jobs), Fraction(0))
        return CostUnit(self.step_s / len(jobs), -releases_s / len(jobs))

    def start(self, schedule: Schedule) -> None:  # noqa: ARG002
        """Return None (no start values), because known schedules do not lie on the grid."""
        return

    def of_job(self, kind: ByJobAndSlot, j: int) -> list[Any]:
        """Return the variables of one kind for job j, in the order of the slots."""
        return [kind[j, s] for s in range(self.slots)]


class GridSolver(ExactModelSolver):
    """An exact-model solver for mean JCT on a time grid that starts at the first release."""

    solve = from_first_release(ExactModelSolver.solve)

    def model(self, instance: Instance) -> Any:
        """Return the backend's model of an instance, with time counted from the first release.

        Mean JCT does not depend on the origin of time.
        """
        return super().model(instance.from_first_release)


def on_grid(form: type[OnGrid], step_s: float | None) -> Formulation:
    """Return the formulation of mean JCT on a time grid with slots of `step_s` seconds.

    It never proves optimality.
    """

    def data(
        instance: Instance,
        start: Incumbent[Schedule] | None,
        in_floats: bool,  # noqa: ARG001
    ) -> OnGrid:
        return form.of(instance, math.inf if start is None else float(start[1]), step_s)

    return Formulation(
        problem=PROBLEM,
        variants=(Objective.MEAN_JCT,),
        supports=form.supports,
        data=data,
        begin=lambda instance, _: best_priority_schedule(instance),
        simple_bound=lambda _: 0.0 if form is SlotModel else None,
        summary=(
            "Time-indexed relaxation, a lower bound"
            if form is SlotModel
            else "Schedules on a time grid, never below the optimum"
        ),
        is_exact=False,
        gives_bound=form is SlotModel,
    )


# The relaxation


class SlotVariables(NamedTuple):
    """The variables of the time-indexed relaxation, by job and slot; completion times by job."""

    started: ByJobAndSlot
    completed: ByJobAndSlot
    run: ByJobAndSlot
    extra: ByJobAndSlot
    completion_time: Mapping[int, Any]


class SlotModel(OnGrid):
    """The data of the time-indexed relaxation of an instance, which bounds mean JCT from below."""

    __slots__ = ()

    @classmethod
    def supports(cls, instance: Instance, in_floats: bool) -> Unsupported | None:
        """Return why the relaxation cannot handle the instance; None if it can.

        A grid over a long span of releases has slots so long that short jobs vanish in the
        backends' tolerances.
        """
        refused = super().supports(instance, in_floats)
        if refused is not None:
            return refused
        span_s = max(job.release_s for job in instance.jobs) - instance.first_release_s
        work_s = math.fsum(float(job.duration_s(job.max_workers)) for job in instance.jobs)
        if span_s <= LONGEST_WAIT * work_s:
            return None
        return Unsupported(
            f"the model supports releases that span at most {LONGEST_WAIT:g} times the run time "
            f"of all jobs; this instance has {span_s:g} s of releases and {work_s:g} s of run time"
        )

    @classmethod
    def of(cls, instance: Instance, known_s: float, step_s: float | None) -> SlotModel:
        """Return the relaxation on a grid that is long enough for some optimal schedule.

        A known schedule limits the last completion: all completions together may not exceed its
        sum. Another limit holds because after the last release some job is always running.
        """
        jobs = instance.jobs
        least = [job.release_s + float(job.duration_s(job.max_workers)) for job in jobs]
        one_by_one = max(job.release_s for job in jobs) + math.fsum(
            float(job.duration_s(job.min_workers)) for job in jobs
        )
        known_sum_s = _known_sum_s(instance, known_s)
        horizon_s = min(
            one_by_one * (1 + KNOWN_MARGIN), known_sum_s - math.fsum(least) + max(least)
        )
        step = step_s or max(horizon_s / DEFAULT_SLOTS_OF_RELAXATION, SHORTEST_STEP_S)
        return cls(instance, Fraction(step), max(1, math.ceil(horizon_s / step)), known_s)

    @property
    def step(self) -> float:
        """The length of a slot, in seconds."""
        return float(self.step_s)

    @property
    def known_sum(self) -> float:
        """An upper bound on the sum of completion times, in slots, from a known schedule."""
        return _known_sum_s(self.instance, self.known_s) / self.step

    @property
    def earliest(self) -> list[float]:
        """The earliest completion time of each job, in slots."""
        jobs = self.instance.jobs
        return [
            (job.release_s + float(job.duration_s(job.max_workers))) / self.step for job in jobs
        ]

    @property
    def latest(self) -> list[float]:
        """The latest completion time of each job, in slots.

        All completions together may not exceed the known sum, so each job may be late only by what
        the known sum leaves beyond all earliest completions.
        """
        spare = max(0.0, self.known_sum - math.fsum(self.earliest))
        return [min(float(self.slots), earliest + spare) for earliest in self.earliest]

    def solution(self, values: Values) -> None:  # noqa: ARG002
        """Return None, because a solution of the relaxation does not describe a schedule."""
        return

    def dual_bound(self, cost: Fraction) -> float:
        """Return a lower bound on mean JCT, in seconds, reduced by the backend's tolerances."""
        instance = self.instance
        releases_s = math.fsum(job.release_s for job in instance.jobs)
        sum_s = float(cost) * self.step
        margin_s = ABSOLUTE_TOLERANCE * max(sum_s, releases_s)
        mean_s = (sum_s - releases_s - margin_s) / len(instance.jobs)
        return max(0.0, mean_s)


def _known_sum_s(instance: Instance, known_s: float) -> float:
    """Return the sum of completion times, in seconds, for a mean JCT, plus a margin."""
    total_s = known_s * len(instance.jobs) + math.fsum(job.release_s for job in instance.jobs)
    return total_s * (1 + KNOWN_MARGIN)


# Schedules


class ScheduleVariables(NamedTuple):
    """The variables of the schedule model by job and slot: workers, started, completed.

    `completed` means before the slot, so it has one more slot.
    """

    held: ByJobAndSlot
    started: ByJobAndSlot
    completed: ByJobAndSlot


class ScheduleModel(OnGrid):
    """The data of a model whose schedules change integer numbers of workers only at grid points."""

    __slots__ = ()

    @classmethod
    def of(cls, instance: Instance, known_s: float, step_s: float | None) -> ScheduleModel:
        """Return the schedule model with enough slots to run all jobs one after another."""
        jobs = instance.jobs
        last_s = max(job.release_s for job in jobs)
        if step_s is None:
            longest_s = last_s + math.fsum(float(job.duration_s(job.min_workers)) for job in jobs)
            step_s = max(longest_s / DEFAULT_SLOTS_OF_SCHEDULE, SHORTEST_STEP_S)
        step = Fraction(step_s)
        slots = math.ceil(Fraction(last_s) / step)
        slots += sum(math.ceil(job.duration_s(job.min_workers) / step) for job in jobs)
        return cls(instance, step, slots, known_s)

    @classmethod
    def supports(cls, instance: Instance, in_floats: bool) -> Unsupported | None:
        """Return why CP-SAT cannot handle the instance, such as an overflow; None if it can."""
        refused = super().supports(instance, in_floats)
        if refused is not None:
            return refused
        slots = DEFAULT_SLOTS_OF_SCHEDULE + 2 * len(instance.jobs)
        most = max(instance.gpus, *(instance.most_workers(job) for job in instance.jobs))
        if slots * most * RATE_UNIT < 2**62:
            return None
        return Unsupported(f"with {most} workers the model exceeds the 64-bit integers of CP-SAT")

    def rates(self, job: ElasticJob) -> tuple[int, int]:
        """Return a job's rate of work per worker, and the constant rate added while it runs.

        Both are integers in units of 1 / `RATE_UNIT` workers.
        """
        gain = math.floor((1 - Fraction(job.scaling_loss)) * RATE_UNIT)
        return gain, job.min_workers * (RATE_UNIT - gain)

    def mean_s(self, cost: float) -> float:
        """Return the mean JCT, in seconds, for a sum of completion times in whole slots."""
        return float(round(cost) * self.unit.scale + self.unit.offset)

    def dual_bound(self, cost: Fraction) -> None:  # noqa: ARG002
        """Return None, because schedules off the grid may be better."""
        return

    def solution(self, values: Values) -> Schedule:
        """Return the schedule that rounded values describe; a job ends when its work is done."""
        pieces = [
            (start, j, end, held)
            for j in range(len(self.instance.jobs))
            for start, end, held in self._pieces(j, values[j * self.slots : (j + 1) * self.slots])
        ]
        return Schedule(
            tuple(
                SchedulePiece(
                    job=self.instance.jobs[j].id,
                    start_s=float(start),
                    # Rounding to floats could make a very short piece end at its start.
                    end_s=max(float(end), math.nextafter(start, math.inf)),
                    workers=float(held),
                )
                for start, j, end, held in sorted(pieces)
            )
        )

    def _pieces(self, j: int, workers: Values) -> Iterator[tuple[Fraction, Fraction, int]]:
        """Yield (start, end, workers) of job j in time order, merging slots with equal workers."""
        job, step = self.instance.jobs[j], self.step_s
        left = Fraction(job.work_worker_s)
        last: tuple[Fraction, Fraction, int] | None = None
        for s, held in enumerate(map(round, workers)):
            if not held or left <= 0:
                continue
            rate = job.rate(held)
            end = min((s + 1) * step, s * step + left / rate)
            left -= rate * (end - s * step)
            if last is not None and last[2] == held:
                last = (last[0], end, held)
                continue
            if last is not None:
                yield last
            last = (s * step, end, held)
        if last is not None:
            yield last
