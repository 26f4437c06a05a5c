"""Mean JCT on a grid of time in numbers: slots of a relaxation, and slots of real schedules."""

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
"""The longest time of releases for each second of work: beyond, a backend's tolerances are more."""
RATE_UNIT = 10**6
"""Parts of a worker in which rates are counted, rounded down."""


@dataclass(frozen=True, slots=True)
class OnGrid(ABC):
    """An instance on a grid.

    Parameters
    ----------
    instance
        The instance.
    step_s
        Length of a slot in seconds.
    slots
        How many there are.
    known_s
        Mean JCT of a schedule that is known, infinite if none is.
    """

    instance: Instance
    step_s: Fraction
    slots: int
    known_s: float

    @classmethod
    @abstractmethod
    def of(cls, instance: Instance, known_s: float, step_s: float | None) -> OnGrid:
        """Return an instance on a grid of this step, None for one that depends on it."""

    @classmethod
    def supports(cls, instance: Instance, _in_floats: bool) -> Unsupported | None:
        """Return why the instance is beyond the model, None if it is not."""
        if instance.objective is not Objective.MEAN_JCT:
            return Unsupported("the model is of the objective mean_jct")
        return None

    @abstractmethod
    def solution(self, values: Values) -> Schedule | None:
        """Return the schedule that values of all variables stand for, None if none is."""

    @abstractmethod
    def dual_bound(self, cost: Fraction) -> float | None:
        """Return the bound on mean JCT that a lower bound on the cost is, None if none is."""

    @property
    def is_settled(self) -> bool:
        """There always is something to decide."""
        return False

    @property
    def unit(self) -> CostUnit:
        """Completions are summed in slots; what their mean is in seconds."""
        jobs = self.instance.jobs
        releases_s = sum((Fraction(job.release_s) for job in jobs), Fraction(0))
        return CostUnit(self.step_s / len(jobs), -releases_s / len(jobs))

    def start(self, schedule: Schedule) -> None:  # noqa: ARG002
        """Return None: known schedules are not on the grid."""
        return

    def of_job(self, kind: ByJobAndSlot, j: int) -> list[Any]:
        """Return the variables of a job, slot by slot."""
        return [kind[j, s] for s in range(self.slots)]


class GridSolver(ExactModelSolver):
    """A model of a grid that begins at the first release."""

    solve = from_first_release(ExactModelSolver.solve)

    def model(self, instance: Instance) -> Any:
        """Return the whole model, with mean JCT, which does not depend on the origin of time."""
        return super().model(instance.from_first_release)


def on_grid(form: type[OnGrid], step_s: float | None) -> Formulation:
    """Return the formulation on slots of `step_s` seconds; neither form proves optimality."""

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
            "Relaxation in slots of time, never above the optimum"
            if form is SlotModel
            else "Schedules on a grid of time, never below the optimum"
        ),
        is_exact=False,
        gives_bound=form is SlotModel,
    )


# The relaxation


class SlotVariables(NamedTuple):
    """By job and slot, completion times by job."""

    started: ByJobAndSlot
    completed: ByJobAndSlot
    run: ByJobAndSlot
    extra: ByJobAndSlot
    completion_time: Mapping[int, Any]


class SlotModel(OnGrid):
    """The numbers of the time-indexed relaxation, which gives a bound alone."""

    __slots__ = ()

    @classmethod
    def supports(cls, instance: Instance, in_floats: bool) -> Unsupported | None:
        """Return that slots of time would be too long to tell jobs from nothing, if they are."""
        refused = super().supports(instance, in_floats)
        if refused is not None:
            return refused
        span_s = max(job.release_s for job in instance.jobs) - instance.first_release_s
        work_s = math.fsum(float(job.duration_s(job.max_workers)) for job in instance.jobs)
        if span_s <= LONGEST_WAIT * work_s:
            return None
        return Unsupported(
            f"releases span {span_s:g} s for {work_s:g} s of jobs alone; slots of time tell jobs "
            f"from nothing up to {LONGEST_WAIT:g} to one"
        )

    @classmethod
    def of(cls, instance: Instance, known_s: float, step_s: float | None) -> SlotModel:
        """Return slots up to a time by which an optimal schedule is done.

        The last job completes no later than the sum of completions of a known schedule leaves it,
        and some job runs at any time after the last release.
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
        """Length of a slot in seconds."""
        return float(self.step_s)

    @property
    def known_sum(self) -> float:
        """The sum of completions of the known schedule, in slots; the model's is no worse."""
        return _known_sum_s(self.instance, self.known_s) / self.step

    @property
    def earliest(self) -> list[float]:
        """The earliest completion of each job, in slots."""
        jobs = self.instance.jobs
        return [
            (job.release_s + float(job.duration_s(job.max_workers))) / self.step for job in jobs
        ]

    @property
    def latest(self) -> list[float]:
        """The latest completion of each job, in slots: that leaves the others their earliest."""
        spare = max(0.0, self.known_sum - math.fsum(self.earliest))
        return [min(float(self.slots), earliest + spare) for earliest in self.earliest]

    def solution(self, values: Values) -> None:  # noqa: ARG002
        """Return None: the relaxation forgets what a schedule would need."""
        return

    def dual_bound(self, cost: Fraction) -> float:
        """Return the bound on mean JCT, below it by the backend's tolerances."""
        instance = self.instance
        releases_s = math.fsum(job.release_s for job in instance.jobs)
        sum_s = float(cost) * self.step
        margin_s = ABSOLUTE_TOLERANCE * max(sum_s, releases_s)
        mean_s = (sum_s - releases_s - margin_s) / len(instance.jobs)
        return max(0.0, mean_s)


def _known_sum_s(instance: Instance, known_s: float) -> float:
    """Return the sum of completions of a schedule, with a margin for the backend's tolerances."""
    total_s = known_s * len(instance.jobs) + math.fsum(job.release_s for job in instance.jobs)
    return total_s * (1 + KNOWN_MARGIN)


# Schedules


class ScheduleVariables(NamedTuple):
    """By job and slot; `completed` before it, so that it has a slot more."""

    held: ByJobAndSlot
    started: ByJobAndSlot
    completed: ByJobAndSlot


class ScheduleModel(OnGrid):
    """The numbers of schedules with whole workers that change on the grid alone."""

    __slots__ = ()

    @classmethod
    def of(cls, instance: Instance, known_s: float, step_s: float | None) -> ScheduleModel:
        """Return so many slots that all jobs fit one after another."""
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
        """Return that the work of all slots does not fit into integers, if it does not."""
        refused = super().supports(instance, in_floats)
        if refused is not None:
            return refused
        slots = DEFAULT_SLOTS_OF_SCHEDULE + 2 * len(instance.jobs)
        most = max(instance.gpus, *(instance.most_workers(job) for job in instance.jobs))
        if slots * most * RATE_UNIT < 2**62:
            return None
        return Unsupported(f"{most} workers are more than CP-SAT counts in integers of 64 bits")

    def rates(self, job: ElasticJob) -> tuple[int, int]:
        """Return what a worker does, and what a running job does besides, in `RATE_UNIT`."""
        gain = math.floor((1 - Fraction(job.scaling_loss)) * RATE_UNIT)
        return gain, job.min_workers * (RATE_UNIT - gain)

    def mean_s(self, cost: float) -> float:
        """Return the mean JCT, in whole slots, where completions sum to so many of them."""
        return float(round(cost) * self.unit.scale + self.unit.offset)

    def dual_bound(self, cost: Fraction) -> None:  # noqa: ARG002
        """Return None: schedules that are not on the grid may be better."""
        return

    def solution(self, values: Values) -> Schedule:
        """Return the schedule; each job completes within its last slot once its work is done."""
        pieces = [
            (start, j, end, held)
            for j in range(len(self.instance.jobs))
            for start, end, held in self._pieces(j, values[j * self.slots : (j + 1) * self.slots])
        ]
        return Schedule(
            tuple(
                SchedulePiece(
                    job=self.instance.jobs[j].id,
                    start_s=float(start),  # floats may be no less apart than a piece is long
                    end_s=max(float(end), math.nextafter(start, math.inf)),
                    workers=float(held),
                )
                for start, j, end, held in sorted(pieces)
            )
        )

    def _pieces(self, j: int, workers: Values) -> Iterator[tuple[Fraction, Fraction, int]]:
        """Yield start, end and workers of a job's pieces; slots with as many workers are one."""
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
