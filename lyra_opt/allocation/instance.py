"""The data classes of an allocation instance and its solutions; validated on construction."""

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
"""Most work and latest release, so that their sums and quotients stay finite in floats."""
LATEST_END_S = 1e30
"""Latest end of a schedule; 10^14 jobs with the most work, run one after another, end earlier."""


class Objective(Variant):
    """The objective of an allocation instance, which is also its variant."""

    JCT_REDUCTION = "jct_reduction", "max"
    """Extra workers for jobs that have their base demand: maximise the sum of T(w_min) - T(w)."""
    TWO_PHASE = "two_phase", "min"
    """Base demands by work / w_max, then extra workers: minimise the sum of T(w) if started."""
    JOINT = "joint", "min"
    """Which jobs start, and with how many workers: minimise the sum of completion times."""
    MEAN_JCT = "mean_jct", "min", 1e-6  # bounds are sums of many floats
    """A schedule over time: minimise the mean job completion time."""


@declared(
    schema={
        "if": {"required": ["running"], "properties": {"running": {"const": True}}},
        "then": {"properties": {"release_s": {"const": 0}}},
    }
)
class ElasticJob:
    """A training job that can run with any number of workers in a range."""

    id: str = key(Text(), "job id, unique in the instance")
    min_workers: int = key(Integer(1), "w_min: the base demand, in workers")
    max_workers: int = key(
        Integer(1),
        "w_max: the most workers that the job can use, at least w_min; the GPUs for w_max workers "
        "of all jobs together are at most 2^53 - 1",
    )
    work_worker_s: float = key(
        Number(0, LARGEST_AMOUNT, above=True),
        "work in worker-seconds: w_min times the running time with w_min workers, T(w_min)",
    )
    gpus_per_worker: int = key(Integer(1), "GPUs that each worker of the job holds", default=1)
    release_s: float = key(
        Number(0, LARGEST_AMOUNT), "submission time of the job; 0 for a running job", default=0.0
    )
    running: bool = key(Flag(), "whether the job is running at time 0", default=False)
    scaling_loss: float = key(
        Number(0, 1),
        "from 0 (linear speed-up) to 1 (workers beyond the base demand add no speed)",
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
        """GPUs that the job holds with its base demand of workers."""
        return self.min_workers * self.gpus_per_worker

    @property
    def max_gpus(self) -> int:
        """GPUs that the job holds with its most workers."""
        return self.max_workers * self.gpus_per_worker

    def with_work(self, work_worker_s: float) -> ElasticJob:
        """Return a copy of the job with another amount of work; only the work is validated."""
        if type(work_worker_s) is not float or not 0 < work_worker_s <= LARGEST_AMOUNT:
            return replace(self, work_worker_s=work_worker_s)
        job = object.__new__(ElasticJob)
        for keep, value_of in _OTHER_FIELDS:
            keep(job, value_of(self))
        _KEEP_WORK(job, work_worker_s)
        return job

    def rate(self, workers: Fraction | int) -> Fraction:
        """Return the exact work per second of `workers` workers, at least w_min of them."""
        extra = Fraction(workers) - self.min_workers
        return self.min_workers + extra * (1 - Fraction(self.scaling_loss))

    def duration_s(self, workers: Fraction | int) -> Fraction:
        """Return T(w), the exact time in which a constant number of workers does all the work."""
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
"""Setter and getter of each field of a frozen job, which save the look-up by name."""


@declared(
    slots=False,
    schema={
        "if": {"required": ["objective"], "properties": {"objective": {"const": "joint"}}},
        "then": {"properties": {"gpus": {"minimum": 1}}},
    },
)
class Instance(ProblemInstance["Solution"]):
    """Choose the number of workers of each elastic job, at once or over time.

    Source: Lyra (EuroSys 2023), section 5.2. `Objective.JOINT` and `Objective.MEAN_JCT` are this
    project's own.
    """

    problem = "allocation"

    objective: VariantOf[Objective] = key(
        Choice(Objective), "the objective", default=Objective.MEAN_JCT, always_written=True
    )
    gpus: int = key(
        Integer(),
        "GPUs to allocate; jct_reduction: the GPUs left by the base demands; joint: at least 1",
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
                    f"cluster's {self.gpus} GPUs",
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
                    f"at most the cluster's {self.gpus} GPUs",
                )

    @property
    def variant(self) -> Objective:
        """The objective of the instance, which determines whether it is minimised or maximised."""
        return self.objective

    def to_networkx(self) -> networkx.Graph:
        """Return a star graph that joins the cluster with each job.

        The centre is ``("cluster",)`` with the attribute ``gpus``. The other nodes are ``("job",
        id)`` with ``min_workers``, ``max_workers``, ``gpus_per_worker``, ``work_worker_s``,
        ``release_s``, ``running`` and ``scaling_loss``. An edge has ``min_gpus`` and ``max_gpus``,
        the GPUs of w_min and w_max workers. The graph has ``name`` and ``objective``. Complexity
        O(jobs).
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
        """Return the largest number of workers, from w_min to w_max, that the cluster can hold."""
        return min(job.max_workers, max(job.min_workers, self.gpus // job.gpus_per_worker))

    @property
    def first_release_s(self) -> float:
        """The earliest release in seconds; 0 if a job is running."""
        return min(job.release_s for job in self.jobs)

    @cached_property
    def rounding_s(self) -> float:
        """The most, in seconds, that rounding shifted releases can raise the optimal mean JCT.

        The value is mostly 0. Subtracting the first release rounds each release by at most e. A
        schedule that is delayed by e is valid after the shift, and its JCTs are longer by at most 2
        e.
        """
        origin_s = Fraction(self.first_release_s)
        exact = (Fraction(job.release_s) - origin_s for job in self.jobs)
        return float_up(2 * max(abs(Fraction(float(each)) - each) for each in exact))

    def bound_at_clock_times(self, bound_s: float) -> float:
        """Convert a mean JCT bound with the first release at 0 to a bound for this instance."""
        least_s = Fraction(0)
        for job in self.jobs:
            fits = Fraction(self.gpus, job.gpus_per_worker)
            least_s += job.duration_s(min(Fraction(job.max_workers), fits))
        return max(min(bound_s, -float_up(-least_s / len(self.jobs))), bound_s - self.rounding_s)

    @cached_property
    def from_first_release(self) -> Instance:
        """The instance with all releases shifted so that the first release is at 0."""
        origin_s = self.first_release_s
        if origin_s == 0:
            return self
        jobs = tuple(replace(job, release_s=job.release_s - origin_s) for job in self.jobs)
        return replace(self, jobs=jobs)

    @cached_property
    def job_position(self) -> Mapping[str, int]:
        """The position of each job in the file, by job id."""
        return FrozenDict({job.id: position for position, job in enumerate(self.jobs)})


@declared(kw_only=False)
class WorkerAllocation:
    """A solution that lists the workers of each job in file order, 0 for a waiting job."""

    workers: TupleOf[int] = key(ListOf(Integer(), least=0), "number of workers of each job")


@declared(kw_only=False)
class NamedWorkers:
    """A solution that maps each job id to a number of workers, 0 for a waiting job.

    This is the form of solution files. `check` tells whether it is valid.
    """

    workers: Mapping[str, int] = key(
        Named(Integer()), "workers of each job by id; 0 for a waiting job (all but mean_jct)"
    )

    def in_file_order(self, instance: Instance) -> WorkerAllocation:
        """Return the numbers of workers in file order; KeyError if a job has no entry."""
        return WorkerAllocation(tuple(self.workers[job.id] for job in instance.jobs))


@declared()
class SchedulePiece:
    """A period in which a job holds a constant, possibly fractional number of workers."""

    job: str = key(Text(), "id of the job")
    start_s: float = key(Number(most=LATEST_END_S, as_given=True), "start of the period")
    end_s: float = key(Number(most=LATEST_END_S, as_given=True), "end of the period, after start_s")
    workers: float = key(
        Number(most=LARGEST_AMOUNT, above=True, as_given=True),
        "number of workers, from w_min to w_max; a fraction means time-sharing of a worker",
    )

    def __post_init__(self) -> None:
        if self.end_s <= self.start_s:
            raise FieldError("end_s", self.end_s, f"must be above start_s, {self.start_s}")


@declared(kw_only=False)
class Schedule:
    """A solution over time, as pieces in which one job holds a constant number of workers.

    `check` tells whether the pieces are valid.
    """

    pieces: TablesOf[SchedulePiece] = key(
        ListOf(Table(SchedulePiece), least=0),
        "the pieces of the schedule; the pieces of a job have no gaps (mean_jct)",
        named="schedule",
    )


Solution = WorkerAllocation | NamedWorkers | Schedule
"""A schedule for `Objective.MEAN_JCT`, workers for the other objectives."""
