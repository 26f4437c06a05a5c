"""Family ``worst-case``: Lyra's knapsack gives all extra workers to the job that should wait.

With E = ``--extra-workers`` and n = ``--jobs`` - 1: n jobs of work 1 and one of work E(E+1)/2, all
with 1 to E + 1 workers of one GPU, on n + 1 + E GPUs, so that E GPUs are left when all jobs have
their base demand. The E-th extra worker of the long job reduces its time by 1/2, as much as the
first extra worker of a short one; so the knapsack gives the long job everything until all short
jobs end together at time 1. Shortest first takes the short jobs one after the other. The ratio of
the two sums of completion times tends to

    (1 + c/2) / (1 - c ln(1 + 1/c) + c/2)    with c = E/n,

at most 1.865, near c = 0.9, which is the default. The unit of work is 100 worker-seconds here, and
the long job has one worker-second more, so that no tie rule matters. All jobs run from time 0.

Source: this project.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lyra_opt.allocation.instance import ElasticJob
from lyra_opt.core.errors import UserError
from lyra_opt.instances.allocation.family import AllocationFamily

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.instances.allocation.parameters import AllocationParameters

UNIT_WORKER_S = 100
DEFAULT_EXTRA_PERCENT = 90


class WorstCaseFamily(AllocationFamily):
    """See the module."""

    optional: ClassVar[tuple[str, ...]] = ("extra_workers",)
    refusals: ClassVar[dict[str, str]] = {
        "objective": "it is the worst case of the mean JCT",
        "gpus": "jobs and extra workers set its size",
        "load_percent": "jobs and extra workers set its size",
    }
    is_drawn: ClassVar[bool] = False

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
    summary="the knapsack's mean JCT is up to 1.865 times that of shortest first; no seed",
)
