"""The data of an allocation instance and of its solutions, validated on construction."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from lyra_opt.core.arithmetic import float_up
from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import Table, declared, key
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.core.problem import ProblemInstance, Variant
from lyra_opt.core.rules import (
    LARGEST_INTEGER,
    Choice,
    Flag,
    Integer,
    ListOf,
    Named,
    Number,
    Text,
    require_sum,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import networkx

    from lyra_opt.core.fields import TablesOf, TupleOf, VariantOf

LARGEST_AMOUNT = float(LARGEST_INTEGER)
"""The most work and the latest release: sums and quotients of them stay finite in floats."""
LATEST_END_S = 1e30
"""Of a schedule: 10^14 jobs of the most work, one after another, end before."""


class Objective(Variant):
    """What is optimised; the variants of the problem."""

    JCT_REDUCTION = "jct_reduction", "max"
    """Extra workers for jobs whose base demand is granted: most sum of T(w_min) - T(w)."""
    TWO_PHASE = "two_phase", "min"
    """Base demands by work / w_max, then the knapsack of `JCT_REDUCTION`: sum of T(w) started."""
    JOINT = "joint", "min"
    """Which jobs start, and with how many workers, in one shot: least sum of completions."""
    MEAN_JCT = "mean_jct", "min", 1e-6  # bounds are sums of many floats
    """The schedule over time: least mean job completion time."""


@declared(
    schema={
        "if": {"required": ["running"], "properties": {"running": {"const": True}}},
        "then": {"properties": {"release_s": {"const": 0}}},
    }
)
class ElasticJob:
    """A training job that runs with any number of workers in a range."""

    id: str = key(Text(), "its name, unique in the instance")
    min_workers: int = key(Integer(1), "w_min, the base demand")
    max_workers: int = key(
        Integer(1),
        "w_max, the most workers that it can use, at least w_min; the GPUs of all jobs' w_max "
        "together are at most 2^53 - 1",
    )
    work_worker_s: float = key(
        Number(0, LARGEST_AMOUNT, above=True),
        "its work in worker-seconds: what w_min workers do in T(w_min) seconds, times w_min",
    )
    gpus_per_worker: int = key(Integer(1), "GPUs that each of its workers holds", default=1)
    release_s: float = key(
        Number(0, LARGEST_AMOUNT), "when it is submitted; 0 for a running job", default=0.0
    )
    running: bool = key(Flag(), "whether it has started at time 0", default=False)
    scaling_loss: float = key(
        Number(0, 1),
        "from 0 (linear speed-up) to 1 (workers beyond the base demand do nothing)",
        default=0.0,
    )

    def __post_init__(self) -> None:
        if self.max_workers < self.min_workers:
            raise FieldError(
                "max_workers",
                self.max_workers,
                f"must be at least the job's min_workers, {self.min_workers}",
            )
        if self.running and self.release_s != 0:
            raise FieldError("release_s", self.release_s, "must be 0 for a running job")

    @property
    def min_gpus(self) -> int:
        """GPUs of the base demand."""
        return self.min_workers * self.gpus_per_worker

    @property
    def max_gpus(self) -> int:
        """GPUs of the most workers."""
        return self.max_workers * self.gpus_per_worker

    def with_work(self, work_worker_s: float) -> ElasticJob:
        """Return the job with another amount of work; what is unchanged is not checked again."""
        if type(work_worker_s) is not float or not 0 < work_worker_s <= LARGEST_AMOUNT:
            return replace(self, work_worker_s=work_worker_s)
        job = object.__new__(ElasticJob)
        for keep, value_of in _OTHER_FIELDS:
            keep(job, value_of(self))
        _KEEP_WORK(job, work_worker_s)
        return job

    def rate(self, workers: Fraction | int) -> Fraction:
        """Return the work done a second by `workers` workers, at least w_min; exact."""
        extra = Fraction(workers) - self.min_workers
        return self.min_workers + extra * (1 - Fraction(self.scaling_loss))

    def duration_s(self, workers: Fraction | int) -> Fraction:
        """Return T(w): how long all its work takes with a constant number of workers; exact."""
        return Fraction(self.work_worker_s) / self.rate(workers)


_KEEP_WORK = vars(ElasticJob)["work_worker_s"].__set__
_OTHER_FIELDS = tuple(
    (member.__set__, member.__get__)
    for member in (
        vars(ElasticJob)[field.name]
        for field in fields(ElasticJob)
        if field.name != "work_worker_s"
    )
)
"""How a field of a frozen job is written and read, without a look-up by name."""


@declared(
    slots=False,
    schema={
        "if": {"required": ["objective"], "properties": {"objective": {"const": "joint"}}},
        "then": {"properties": {"gpus": {"minimum": 1}}},
    },
)
class Instance(ProblemInstance["Solution"]):
    """How many workers each elastic job gets, at once or over time.

    Source: Lyra (EuroSys 2023), section 5.2; the objectives beside `Objective.JCT_REDUCTION` and
    `Objective.TWO_PHASE` are this project's.
    """

    problem = "allocation"

    objective: VariantOf[Objective] = key(
        Choice(Objective), "what is optimised", default=Objective.MEAN_JCT, always_written=True
    )
    gpus: int = key(
        Integer(),
        "GPUs to give: what base demands leave (jct_reduction), else all; at least 1 with joint",
    )
    jobs: TablesOf[ElasticJob] = key(
        ListOf(Table(ElasticJob), unique="id"), "the jobs, in file order"
    )

    def __post_init__(self) -> None:
        require_sum(
            ((job.max_gpus, job.max_workers) for job in self.jobs),
            "jobs[{}].max_workers",
            most=LARGEST_INTEGER,
            rule=f"all jobs up to this one must be able to use at most {LARGEST_INTEGER} GPUs",
        )
        if self.objective is Objective.JOINT and self.gpus == 0:
            raise FieldError("gpus", self.gpus, "must be at least 1 for the objective joint")
        if self.objective is Objective.MEAN_JCT:
            self._require_every_job_to_fit()
        if self.objective in (Objective.MEAN_JCT, Objective.JOINT, Objective.TWO_PHASE):
            self._require_running_jobs_to_fit()

    def _require_every_job_to_fit(self) -> None:
        for position, job in enumerate(self.jobs):
            if job.min_gpus > self.gpus:
                raise FieldError(
                    f"jobs[{position}].min_workers",
                    job.min_workers,
                    f"the job's base demand of {job.min_gpus} GPUs must be at most the "
                    f"{self.gpus} of the cluster",
                )

    def _require_running_jobs_to_fit(self) -> None:
        held = 0
        for position, job in enumerate(self.jobs):
            if not job.running:
                continue
            held += job.min_gpus
            if held > self.gpus:
                raise FieldError(
                    f"jobs[{position}].running",
                    job.running,
                    f"the base demands of the running jobs up to this one, {held} GPUs, must be "
                    f"at most the {self.gpus} of the cluster",
                )

    @property
    def variant(self) -> Objective:
        """The objective, with its sense."""
        return self.objective

    def to_networkx(self) -> networkx.Graph:
        """Return the star of the cluster and the jobs that ask it for GPUs.

        Nodes are ``("cluster",)`` with ``gpus``, and ``("job", id)`` with ``min_workers``,
        ``max_workers``, ``gpus_per_worker``, ``work_worker_s``, ``release_s``, ``running`` and
        ``scaling_loss``. An edge has ``min_gpus`` and ``max_gpus``, the GPUs of w_min and w_max
        workers. The graph has ``name`` and ``objective``. Complexity O(jobs).
        """
        import networkx

        graph = networkx.Graph(name=self.name, objective=str(self.objective))
        graph.add_node(("cluster",), gpus=self.gpus)
        for job in self.jobs:
            node = ("job", job.id)
            graph.add_node(
                node,
                min_workers=job.min_workers,
                max_workers=job.max_workers,
                gpus_per_worker=job.gpus_per_worker,
                work_worker_s=job.work_worker_s,
                release_s=job.release_s,
                running=job.running,
                scaling_loss=job.scaling_loss,
            )
            graph.add_edge(("cluster",), node, min_gpus=job.min_gpus, max_gpus=job.max_gpus)
        return graph

    def most_workers(self, job: ElasticJob) -> int:
        """Return how many workers a job can have: its w_max, or what fits into the cluster."""
        return min(job.max_workers, max(job.min_workers, self.gpus // job.gpus_per_worker))

    @property
    def first_release_s(self) -> float:
        """The earliest release; 0 where a job is running."""
        return min(job.release_s for job in self.jobs)

    @cached_property
    def rounding_s(self) -> float:
        """The most by which the shift to the first release raises the least mean JCT; mostly 0.

        A release, shifted, is rounded by e at most: a schedule that is later by e as a whole is
        valid after the shift, and its JCTs are longer by at most 2 e.
        """
        origin_s = Fraction(self.first_release_s)
        exact = (Fraction(job.release_s) - origin_s for job in self.jobs)
        return float_up(2 * max(abs(Fraction(float(each)) - each) for each in exact))

    def bound_at_clock_times(self, bound_s: float) -> float:
        """Return what a bound on the mean JCT of `from_first_release` proves of the instance."""
        least_s = Fraction(0)
        for job in self.jobs:
            fits = Fraction(self.gpus, job.gpus_per_worker)
            least_s += job.duration_s(min(Fraction(job.max_workers), fits))
        return max(min(bound_s, -float_up(-least_s / len(self.jobs))), bound_s - self.rounding_s)

    @cached_property
    def from_first_release(self) -> Instance:
        """The same with times counted from the first release; itself where that is at 0."""
        origin_s = self.first_release_s
        if origin_s == 0:
            return self
        jobs = tuple(replace(job, release_s=job.release_s - origin_s) for job in self.jobs)
        return replace(self, jobs=jobs)

    @cached_property
    def job_position(self) -> Mapping[str, int]:
        """File position of each job by id."""
        return FrozenDict({job.id: position for position, job in enumerate(self.jobs)})


@declared(kw_only=False)
class WorkerAllocation:
    """How many workers each job gets, in file order; 0 for one that waits."""

    workers: TupleOf[int] = key(ListOf(Integer(), least=0), "workers of each job")


@declared(kw_only=False)
class NamedWorkers:
    """How many workers each job gets, by id, as a file says it; `check` judges it."""

    workers: Mapping[str, int] = key(
        Named(Integer()), "workers of each job by id, 0 for one that waits (all but mean_jct)"
    )

    def in_file_order(self, instance: Instance) -> WorkerAllocation:
        """Return the same without names; KeyError if a job of `instance` has no entry."""
        return WorkerAllocation(tuple(self.workers[job.id] for job in instance.jobs))


@declared()
class SchedulePiece:
    """A stretch of time in which a job holds a constant, possibly fractional number of workers."""

    job: str = key(Text(), "its id")
    start_s: float = key(Number(most=LATEST_END_S, as_given=True), "from when")
    end_s: float = key(Number(most=LATEST_END_S, as_given=True), "until when, above start_s")
    workers: float = key(
        Number(most=LARGEST_AMOUNT, above=True, as_given=True),
        "from the job's w_min to its w_max; a fraction is realised by time-sharing",
    )

    def __post_init__(self) -> None:
        if self.end_s <= self.start_s:
            raise FieldError("end_s", self.end_s, f"must be above start_s, {self.start_s}")


@declared(kw_only=False)
class Schedule:
    """The pieces of a schedule, by start, then by job in file order; `check` judges it."""

    pieces: TablesOf[SchedulePiece] = key(
        ListOf(Table(SchedulePiece), least=0),
        "the pieces of the schedule, without gaps in a job (mean_jct)",
        named="schedule",
    )


Solution = WorkerAllocation | NamedWorkers | Schedule
"""A schedule for `Objective.MEAN_JCT`, workers for the other objectives."""
