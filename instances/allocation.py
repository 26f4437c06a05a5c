"""Generators of allocation instances: the families ``light``, ``load`` and ``worst-case``."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from lyra_opt.allocation.instance import ElasticJob, Instance, Objective
from lyra_opt.core.errors import UserError
from lyra_opt.instances.family import ParameterisedFamily
from lyra_opt.instances.family_parameters import AllocationParameters
from lyra_opt.instances.randomness import IntegerStream


class AllocationFamily(ParameterisedFamily):
    """Base class of the families that generate allocation instances."""

    problem = "allocation"
    parameters = AllocationParameters

    @abstractmethod
    def _draw(
        self, parameters: AllocationParameters, seed: int
    ) -> tuple[int, Sequence[ElasticJob]]:
        """Return the number of GPUs of the cluster and the jobs of one instance."""

    @abstractmethod
    def _label(self, parameters: AllocationParameters) -> str:
        """Return the part of an instance's name for parameters other than jobs and objective."""

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:
        """Return the instance for a seed; `UserError` if the parameters are not valid."""
        checked: AllocationParameters = self.check(parameters)
        gpus, jobs = self._draw(checked, seed)
        return Instance(
            name=self._instance_name(checked, seed),
            objective=Objective(checked.objective),
            gpus=gpus,
            jobs=tuple(jobs),
        )

    def _instance_name(self, parameters: AllocationParameters, seed: int) -> str:
        name = f"{self.name}-v{self.version}-n{parameters.jobs}{self._label(parameters)}"
        if parameters.objective != Objective.MEAN_JCT:
            name += f"-{parameters.objective}"
        return f"{name}-seed{seed}" if self.is_drawn else name


MOST_BASE_WORKERS = 2
MOST_EXTRA_WORKERS = 6
SHORTEST_S, LONGEST_S = 10, 100

DEFAULT_GPUS_PER_FIVE_JOBS = 16
LEAST_GPUS_PER_JOB, MOST_GPUS_PER_JOB = MOST_BASE_WORKERS, 5


class LightFamily(AllocationFamily):
    """Family ``light``: all base demands fit on the GPUs, but not the largest demands of all jobs.

    Source: this project. The number of GPUs lies between the sum of the base demands and the sum of
    the largest demands. Workers have one GPU, the speed-up is linear, and every job runs from time
    0. w_min is 1 or 2, w_max is larger by 1 to 6, and the shortest running time is 10 to 100 s; all
    values are equally likely. All jobs are drawn again until the sum of their largest demands
    reaches the number of GPUs. For `Objective.JCT_REDUCTION` the instance has only the GPUs that
    remain after the base demands.
    """

    optional: ClassVar[tuple[str, ...]] = ("gpus", "objective")
    refusals: ClassVar[Mapping[str, str]] = {
        "load_percent": "its load is light; --gpus sets it",
        "release_percent": "all its jobs run from time 0",
    }

    def _gpus(self, parameters: AllocationParameters) -> int:
        if parameters.gpus is not None:
            return parameters.gpus
        return DEFAULT_GPUS_PER_FIVE_JOBS * parameters.jobs // 5

    def _require(self, parameters: AllocationParameters) -> None:
        least = LEAST_GPUS_PER_JOB * parameters.jobs
        most = MOST_GPUS_PER_JOB * parameters.jobs
        if not least <= self._gpus(parameters) <= most:
            raise UserError(
                f"--gpus is {parameters.gpus}: must be from {least} to {most} for "
                f"{parameters.jobs} jobs of family light"
            )

    def _draw(
        self, parameters: AllocationParameters, seed: int
    ) -> tuple[int, Sequence[ElasticJob]]:
        gpus = self._gpus(parameters)
        stream = self._stream("jobs", seed, jobs=parameters.jobs)
        # The cluster always has enough GPUs for the base demands of all jobs together.
        # Samples whose jobs cannot use all GPUs are rejected. On the largest cluster, about half
        # of all samples are rejected.
        jobs = _drawn_jobs(parameters.jobs, stream)
        while sum(job.max_gpus for job in jobs) < gpus:
            jobs = _drawn_jobs(parameters.jobs, stream)
        if parameters.objective == Objective.JCT_REDUCTION:
            gpus -= sum(job.min_gpus for job in jobs)
        return gpus, jobs

    def _label(self, parameters: AllocationParameters) -> str:
        return f"-gpus{self._gpus(parameters)}"


def _drawn_jobs(count: int, stream: IntegerStream) -> list[ElasticJob]:
    jobs = []
    for number in range(1, count + 1):
        least = stream.between(1, MOST_BASE_WORKERS)
        most = least + stream.between(1, MOST_EXTRA_WORKERS)
        shortest_s = stream.between(SHORTEST_S, LONGEST_S)
        jobs.append(
            ElasticJob(
                id=f"j{number}",
                min_workers=least,
                max_workers=most,
                work_worker_s=most * shortest_s,
                running=True,
            )
        )
    return jobs


LIGHT = LightFamily(
    "light",
    version=1,
    summary="all base demands fit, but not all extra workers; all jobs run from time 0",
)


BASE_WORKERS_WEIGHTS = (4, 3, 2, 1)
MOST_EXTRA_SHARE = 3
SHORTEST_EXPONENT, LONGEST_EXPONENT = 4, 10
MIXED_GPUS_PER_WORKER = (1, 2, 4, 8)


class LoadFamily(AllocationFamily):
    """Family ``load``: elastic jobs on a cluster with a chosen load, with or without release times.

    A job's base demand is 1, 2, 3 or 4 workers with probability 0.4, 0.3, 0.2 and 0.1. A job can
    use additional workers: from 0 to three times its base demand, each number equally likely, or
    ``--extra-workers``. Its shortest running time is 2^k to 2^(k+1) - 1 s with k from 4 to 10, each
    equally likely. This gives a skewed distribution from 16 s to 34 min. A worker holds
    ``--gpus-per-worker`` GPUs, or 1, 2, 4 or 8 with equal probability.

    The sum of the base demands is ``--load-percent`` of the GPUs. The number of GPUs is rounded up,
    and is at least the largest base demand. For `Objective.JCT_REDUCTION`, where all base demands
    are granted, the load counts the extra workers instead. Release times are whole seconds from 0
    to ``--release-percent`` of H, each equally likely, where H is the time in which all GPUs
    together can do all the work. The order of the jobs does not depend on their release times.

    Worker ranges, GPUs per worker and release times come from separate random streams. Instances
    that differ only in load, objective, scaling loss, release times or GPUs per worker have jobs
    that are otherwise equal.
    """

    optional: ClassVar[tuple[str, ...]] = (
        "gpus",
        "load_percent",
        "objective",
        "release_percent",
        "scaling_loss_percent",
        "gpus_per_worker",
        "extra_workers",
    )

    def _draw(
        self, parameters: AllocationParameters, seed: int
    ) -> tuple[int, Sequence[ElasticJob]]:
        shapes = self._shapes(parameters, seed)
        gpus = self._gpus(parameters, shapes)
        releases = self._stream("releases", seed, jobs=parameters.jobs)
        gpu_work_s = sum(work * gpus_per_worker for _, _, work, gpus_per_worker in shapes)
        last_release_s = gpu_work_s * parameters.release_percent // (100 * max(1, gpus))
        return gpus, [
            ElasticJob(
                id=f"j{number}",
                min_workers=least,
                max_workers=most,
                work_worker_s=work,
                gpus_per_worker=gpus_per_worker,
                release_s=releases.between(0, last_release_s),
                scaling_loss=parameters.scaling_loss_percent / 100,
            )
            for number, (least, most, work, gpus_per_worker) in enumerate(shapes, start=1)
        ]

    def _shapes(
        self, parameters: AllocationParameters, seed: int
    ) -> list[tuple[int, int, int, int]]:
        """Return (w_min, w_max, work in worker-seconds, GPUs per worker) for each job."""
        ranges = self._stream("ranges", seed, jobs=parameters.jobs)
        widths = self._stream("gpus-per-worker", seed, jobs=parameters.jobs)
        shapes = []
        for _ in range(parameters.jobs):
            least = 1 + ranges.weighted(BASE_WORKERS_WEIGHTS)
            extra = ranges.between(0, MOST_EXTRA_SHARE * least)
            exponent = ranges.between(SHORTEST_EXPONENT, LONGEST_EXPONENT)
            shortest_s = ranges.between(2**exponent, 2 ** (exponent + 1) - 1)
            mixed = MIXED_GPUS_PER_WORKER[widths.below(len(MIXED_GPUS_PER_WORKER))]
            if parameters.extra_workers is not None:
                extra = parameters.extra_workers
            width = parameters.gpus_per_worker
            most = least + extra
            gpus_per_worker = mixed if width == "mixed" else int(width)
            shapes.append((least, most, most * shortest_s, gpus_per_worker))
        return shapes

    def _gpus(
        self, parameters: AllocationParameters, shapes: Sequence[tuple[int, int, int, int]]
    ) -> int:
        base = [least * gpus_per_worker for least, _, _, gpus_per_worker in shapes]
        if parameters.gpus is not None:
            if parameters.objective == Objective.MEAN_JCT and parameters.gpus < max(base):
                raise UserError(
                    f"--gpus is {parameters.gpus}: must be at least {max(base)}, the base "
                    "demand of the largest job"
                )
            return parameters.gpus
        assert parameters.load_percent is not None, "one of the two is set"
        if parameters.objective == Objective.JCT_REDUCTION:
            extra = sum((most - least) * width for least, most, _, width in shapes)
            return -(-100 * extra // parameters.load_percent)
        return max(*base, -(-100 * sum(base) // parameters.load_percent))

    def _label(self, parameters: AllocationParameters) -> str:
        label = (
            f"-load{parameters.load_percent}"
            if parameters.gpus is None
            else f"-gpus{parameters.gpus}"
        )
        if parameters.release_percent:
            label += f"-release{parameters.release_percent}"
        if parameters.scaling_loss_percent:
            label += f"-loss{parameters.scaling_loss_percent}"
        if parameters.gpus_per_worker != "1":
            label += f"-width{parameters.gpus_per_worker}"
        if parameters.extra_workers is not None:
            label += f"-extra{parameters.extra_workers}"
        return label


LOAD = LoadFamily(
    "load",
    version=1,
    summary="skewed running times; load, releases, scaling loss and GPUs per worker can be set",
)


UNIT_WORKER_S = 100
DEFAULT_EXTRA_PERCENT = 90


class WorstCaseFamily(AllocationFamily):
    """Family ``worst-case``: Lyra's knapsack gives all extra workers to the job that should wait.

    Let E = ``--extra-workers`` and n = ``--jobs`` - 1. There are n short jobs of work 1 and one
    long job of work E(E+1)/2, all with 1 to E + 1 workers of one GPU. The cluster has n + 1 + E
    GPUs, so E GPUs remain when all jobs have their base demand. The E-th extra worker of the long
    job reduces its time by 1/2, as much as the first extra worker of a short job. The knapsack
    therefore gives all extra workers to the long job, until all short jobs end together at time 1.
    Shortest first gives them to the short jobs in turn. The ratio of the two sums of completion
    times tends to

        (1 + c/2) / (1 - c ln(1 + 1/c) + c/2)    with c = E/n,

    which is at most 1.865, near the default c = 0.9. The unit of work is 100 worker-seconds. The
    long job has one more worker-second, so that ties do not matter. All jobs run from time 0.

    Source: this project.
    """

    optional: ClassVar[tuple[str, ...]] = ("extra_workers",)
    refusals: ClassVar[dict[str, str]] = {
        "objective": "it is a worst case for the mean JCT only",
        "gpus": "--jobs and --extra-workers set the number of GPUs",
        "load_percent": "--jobs and --extra-workers set the number of GPUs",
    }

    def _extra(self, parameters: AllocationParameters) -> int:
        if parameters.extra_workers is not None:
            return parameters.extra_workers
        return max(1, (DEFAULT_EXTRA_PERCENT * (parameters.jobs - 1) + 50) // 100)

    def _require(self, parameters: AllocationParameters) -> None:
        if parameters.jobs < 2:
            raise UserError(
                f"--jobs is {parameters.jobs}: must be at least 2 for family worst-case"
            )
        if self._extra(parameters) < 1:
            raise UserError("--extra-workers is 0: must be at least 1 for family worst-case")

    def _draw(
        self,
        parameters: AllocationParameters,
        seed: int,  # noqa: ARG002
    ) -> tuple[int, Sequence[ElasticJob]]:
        extra = self._extra(parameters)
        works = {"long": UNIT_WORKER_S * extra * (extra + 1) // 2 + 1}
        works |= {f"short-{number}": UNIT_WORKER_S for number in range(1, parameters.jobs)}
        jobs = [
            ElasticJob(
                id=job, min_workers=1, max_workers=extra + 1, work_worker_s=work, running=True
            )
            for job, work in works.items()
        ]
        return parameters.jobs + extra, jobs

    def _label(self, parameters: AllocationParameters) -> str:
        return f"-extra{self._extra(parameters)}"


WORST_CASE = WorstCaseFamily(
    "worst-case",
    version=1,
    is_drawn=False,
    summary="Lyra's knapsack has up to 1.865 times the mean JCT of shortest first; no seed",
)
