"""Jobs with the published mix of Alibaba's openb trace, in which many ask for part of a GPU.

Source: ``cluster-trace-gpu-v2023`` of https://github.com/alibaba/clusterdata, whose file
``openb_pod_list_default.csv`` lists the pods of Weng et al. (USENIX ATC 2023). The tables of this
module count its 6,203 pods that ask for GPUs and were scheduled.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.core.rules import require_integer, require_number
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.workloads import MOST_GENERATED_JOBS
from lyra_opt.simulation.workload import WHOLE_GPU, Job, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OPENB_PODS = "openb_pod_list_default.csv"
OPENB_JOBS = 20_000
LONGEST_H = 2.0
VERSION = 1
"""The version of the generator, raised whenever a seed gives another workload."""

_SHARES = (0, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 950, 980, 990, 1000)
"""Shares of the pods, per 1,000, that run at most as long as the quantiles below."""


class _Kind(NamedTuple):
    """Pods by thousandths of a GPU or number of GPUs, and quantiles of their running times in s."""

    pods: dict[int, int]
    run_s: Sequence[int]


_SLICES = _Kind(
    dict(
        (
            *((50, 7), (110, 18), (140, 1), (160, 70), (220, 60), (230, 94), (270, 4), (290, 1)),
            *((320, 288), (330, 7), (350, 5), (370, 46), (440, 2), (460, 128), (470, 455)),
            *((480, 19), (550, 71), (590, 62), (650, 218), (810, 1017)),
        )
    ),
    (
        *(4, 35, 55, 103, 174, 289, 539, 928, 1_281, 2_879, 9_235, 20_153, 49_516, 75_954),
        12_475_899,
    ),
)
_ONE_GPU = _Kind(
    {1: 3556},
    (
        *(5, 56, 80, 177, 251, 459, 758, 1_210, 1_972, 3_536, 6_030, 13_217, 57_462, 236_343),
        12_537_496,
    ),
)
_SEVERAL_GPUS = _Kind(
    {2: 15, 4: 15, 8: 44},
    (
        *(22, 36, 40, 140, 259, 497, 573, 1_707, 3_599, 14_526, 68_494, 175_089, 977_323, 977_323),
        1_332_357,
    ),
)
_KINDS = _SLICES, _ONE_GPU, _SEVERAL_GPUS


class _Pod(NamedTuple):
    """A drawn pod: its whole GPUs or its thousandths of a GPU, and its running time."""

    gpus: int
    thousandths: int | None
    run_s: float

    @property
    def held_gpus(self) -> float:
        """The GPUs that the pod holds; a slice counts by its share."""
        return self.gpus if self.thousandths is None else self.thousandths / WHOLE_GPU


def openb_like(
    *,
    seed: int,
    gpus: int,
    jobs: int = OPENB_JOBS,
    longest_h: float = LONGEST_H,
    pods: Workload | None = None,
) -> Workload:
    """Return jobs with the mix of openb, submitted by a Poisson process at a load of 1.

    Parameters
    ----------
    seed
        The random seed, at least 0.
    gpus
        The GPUs of the cluster, on which the load is 1.
    jobs
        The number of jobs.
    longest_h
        Running times above so many hours are cut, as most of these pods serve and do not train.
    pods
        The pods of the trace, of which jobs are drawn with replacement; None draws from the
        published mix, with running times between its quantiles.
    """
    require_integer("seed", seed, minimum=0)
    require_integer("jobs", jobs, minimum=2, maximum=MOST_GENERATED_JOBS)
    longest_s = 3600 * require_number("longest_h", longest_h, minimum=0, above=True)
    stream = IntegerStream(workload="openb-like", version=VERSION, seed=seed)
    draw = _from_mix(stream) if pods is None else _from_pods(stream, pods)
    drawn = [(draw(), stream.exponential()) for _ in range(jobs)]
    work_gpu_s = sum(min(pod.run_s, longest_s) * pod.held_gpus for pod, _ in drawn)
    per_gap_s = work_gpu_s / gpus / sum(gap for _, gap in drawn[1:])
    found, now_s = [], 0.0
    for number, (pod, gap) in enumerate(drawn):
        now_s += gap * per_gap_s if number else 0.0
        found.append(
            Job(
                id=f"pod-{number}",
                submit_s=round(now_s, 3),
                work_worker_s=min(pod.run_s, longest_s),
                gpus_per_worker=1 if pod.thousandths else pod.gpus,
                gpu_thousandths=pod.thousandths,
            )
        )
    source = (
        "from the published mix of 6,203 pods, with running times between its quantiles"
        if pods is None
        else f"with replacement from the {len(pods.jobs):,} pods of {OPENB_PODS}"
    )
    return Workload(
        name="openb-like",
        jobs=tuple(found),
        assumptions=(
            f"Jobs are drawn {source}; processors and memory of openb are not considered.",
            f"Assumed: running times above {longest_h:g} h are cut, and jobs arrive by a Poisson "
            "process.",
        ),
    )


def _from_pods(stream: IntegerStream, pods: Workload) -> Callable[[], _Pod]:
    def draw() -> _Pod:
        job = pods.jobs[stream.below(len(pods.jobs))]
        return _Pod(job.min_gpus, job.gpu_thousandths, job.duration_s)

    return draw


def _from_mix(stream: IntegerStream) -> Callable[[], _Pod]:
    kinds = [(kind, size, pods) for kind in _KINDS for size, pods in kind.pods.items()]
    weights = [pods for _, _, pods in kinds]

    def draw() -> _Pod:
        kind, size, _ = kinds[stream.weighted(weights)]
        share = 1000 * stream.fraction()
        after = next(place for place, most in enumerate(_SHARES) if share < most)
        low, high = kind.run_s[after - 1], kind.run_s[after]
        part = (share - _SHARES[after - 1]) / (_SHARES[after] - _SHARES[after - 1])
        run_s = math.ceil(low * (high / low) ** part)
        return _Pod(1, size, run_s) if kind is _SLICES else _Pod(size, None, run_s)

    return draw
