"""Data of a model of mean JCT whose schedules change only at the points of a time grid.

Its solutions are feasible schedules, so its optimum is never below that of the problem.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from lyra_opt.allocation.clock_times import from_first_release
from lyra_opt.allocation.exact.mean_jct.solver import best_priority_schedule
from lyra_opt.allocation.instance import ElasticJob, Instance, Objective, Schedule, SchedulePiece
from lyra_opt.allocation.problem import PROBLEM
from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.backends.backend import CostUnit, Values
from lyra_opt.formulations.exact_model import ExactModelSolver, Formulation

ByJobAndSlot = Mapping[tuple[int, int], Any]

DEFAULT_SLOTS_OF_SCHEDULE = 24
SHORTEST_STEP_S = 1e-300
RATE_UNIT = 10**6
"""Rates are counted in this fraction of a worker, rounded down."""


class ScheduleVariables(NamedTuple):
    """The variables of the schedule model by job and slot: workers, started, completed.

    `completed` means before the slot, so it has one more slot.
    """

    held: ByJobAndSlot
    started: ByJobAndSlot
    completed: ByJobAndSlot


@dataclass(frozen=True, slots=True)
class ScheduleModel:
    """The data of a model whose schedules change integer numbers of workers only at grid points.

    Parameters
    ----------
    instance
        An instance with objective mean JCT.
    step_s
        The length of a slot, in seconds.
    slots
        The number of slots.
    """

    instance: Instance
    step_s: Fraction
    slots: int

    @classmethod
    def of(cls, instance: Instance, step_s: float | None) -> "ScheduleModel":
        """Return the schedule model with enough slots to run all jobs one after another."""
        jobs = instance.jobs
        last_s = max(job.release_s for job in jobs)
        if step_s is None:
            longest_s = last_s + math.fsum(float(job.duration_s(job.min_workers)) for job in jobs)
            step_s = max(longest_s / DEFAULT_SLOTS_OF_SCHEDULE, SHORTEST_STEP_S)
        step = Fraction(step_s)
        slots = math.ceil(Fraction(last_s) / step)
        slots += sum(math.ceil(job.duration_s(job.min_workers) / step) for job in jobs)
        return cls(instance, step, slots)

    @classmethod
    def supports(cls, instance: Instance, _in_floats: bool) -> Unsupported | None:
        """Return why CP-SAT cannot handle the instance, such as an overflow; None if it can."""
        if instance.objective is not Objective.MEAN_JCT:
            return Unsupported("the model supports the objective mean_jct only")
        slots = DEFAULT_SLOTS_OF_SCHEDULE + 2 * len(instance.jobs)
        most = max(instance.gpus, *(instance.most_workers(job) for job in instance.jobs))
        if slots * most * RATE_UNIT < 2**62:
            return None
        return Unsupported(f"with {most} workers the model exceeds the 64-bit integers of CP-SAT")

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


class GridSolver(ExactModelSolver):
    """An exact-model solver for mean JCT on a time grid that starts at the first release."""

    solve = from_first_release(ExactModelSolver.solve)

    def model(self, instance: Instance) -> Any:
        """Return the backend's model of an instance, with time counted from the first release.

        Mean JCT does not depend on the origin of time.
        """
        return super().model(instance.from_first_release)


def on_grid(step_s: float | None) -> Formulation:
    """Return the formulation of mean JCT on a time grid with slots of `step_s` seconds.

    It never proves optimality.
    """
    return Formulation(
        problem=PROBLEM,
        variants=(Objective.MEAN_JCT,),
        supports=ScheduleModel.supports,
        data=lambda instance, _start, _in_floats: ScheduleModel.of(instance, step_s),
        begin=lambda instance, _: best_priority_schedule(instance),
        simple_bound=lambda _: None,
        summary="Schedules on a time grid, never below the optimum",
        is_exact=False,
        gives_bound=False,
    )
