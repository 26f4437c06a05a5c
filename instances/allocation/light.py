"""Family ``light``: all base demands fit, not all jobs can have all their workers.

Source: this project. The load is light: the GPUs lie between the sum of the base demands and the
sum of the largest ones, one GPU a worker, linear speed-up, and every job runs from time 0. w_min
is 1 or 2, w_max is 1 to 6 workers more, and the shortest running time 10 to 100 s, each equally
likely. Jobs are drawn anew until the GPUs lie where they must. For `Objective.JCT_REDUCTION` the
GPUs of the instance are those that the base demands leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lyra_opt.allocation.instance import ElasticJob, Objective
from lyra_opt.core.errors import UserError
from lyra_opt.instances.allocation.family import AllocationFamily

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.instances.allocation.parameters import AllocationParameters
    from lyra_opt.instances.randomness import IntegerStream

MOST_BASE_WORKERS = 2
MOST_EXTRA_WORKERS = 6
SHORTEST_S, LONGEST_S = 10, 100

DEFAULT_GPUS_PER_FIVE_JOBS = 16
LEAST_GPUS_PER_JOB, MOST_GPUS_PER_JOB = MOST_BASE_WORKERS, 5


class LightFamily(AllocationFamily):
    """See the module."""

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
        stream = self._stream("jobs", parameters.jobs, seed)
        # The base demands always fit; that the largest exceed the GPUs has a chance of a half
        # where there are as many as may be asked for, and a larger one elsewhere.
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
    summary="all base demands fit, not all extra workers; all jobs run from 0",
)
