"""Family ``load``: jobs on a cluster from slack to overbooked, with or without releases.

A job's base demand is 1, 2, 3 or 4 workers with chances of 4, 3, 2 and 1 in ten. Beyond it the job
can use 0 to three times as many workers, each number equally likely, or ``--extra-workers``. Its
shortest running time is 2^k to 2^(k+1) - 1 s with k from 4 to 10, each equally likely: 16 s to
34 min, skewed as running times are. A worker holds ``--gpus-per-worker`` GPUs, or 1, 2, 4 or 8 with
equal chances.

The cluster has so many GPUs that the base demands together are ``--load-percent`` of them, rounded
up, but no fewer than the largest base demand needs. For `Objective.JCT_REDUCTION`, where base
demands are granted, the extra workers take their place. Releases are whole seconds from 0 to
``--release-percent`` of H, the time in which all GPUs could do all the work, each equally likely;
the jobs stand in no order of release.

Ranges, GPUs a worker and releases are drawn from streams of their own: instances that differ in
load, objective, scaling loss, releases or GPUs a worker alone are otherwise the same jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lyra_opt.allocation.instance import ElasticJob, Objective
from lyra_opt.core.errors import UserError
from lyra_opt.instances.allocation.family import AllocationFamily

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.instances.allocation.parameters import AllocationParameters

BASE_WORKERS_WEIGHTS = (4, 3, 2, 1)
MOST_EXTRA_SHARE = 3
SHORTEST_EXPONENT, LONGEST_EXPONENT = 4, 10
MIXED_GPUS_PER_WORKER = (1, 2, 4, 8)


class LoadFamily(AllocationFamily):
    """See the module."""

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
        releases = self._stream("releases", parameters.jobs, seed)
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
        """Return w_min, w_max, work and GPUs a worker of each job."""
        ranges = self._stream("ranges", parameters.jobs, seed)
        widths = self._stream("gpus-per-worker", parameters.jobs, seed)
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
                    f"--gpus is {parameters.gpus}: must be at least {max(base)}, which one of the "
                    "drawn jobs needs"
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
    summary="skewed running times, load, releases, scaling loss and GPUs a worker to choose",
)
