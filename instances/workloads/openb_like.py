"""Jobs with the published mix of Alibaba's openb trace, in which many ask for part of a GPU.

Source: ``cluster-trace-gpu-v2023`` of https://github.com/alibaba/clusterdata, whose file
``openb_pod_list_default.csv`` lists the pods of Weng et al. (USENIX ATC 2023). The tables in
``openb_like.toml`` count its 6,203 pods that ask for GPUs and were scheduled.
"""

import math
from collections.abc import Callable
from importlib.resources import files
from typing import NamedTuple

import msgspec

from lyra_opt.core.rules import require_integer, require_number
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.workloads import MOST_GENERATED_JOBS
from lyra_opt.simulation.workload import WHOLE_GPU, Job, Workload

OPENB_PODS = "openb_pod_list_default.csv"
OPENB_JOBS = 20_000
LONGEST_H = 2.0
VERSION = 1
"""The version of the generator, raised whenever a seed gives another workload."""

_SHARES = (0, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 950, 980, 990, 1000)
"""Shares of the pods, per 1,000, that run at most as long as the quantiles of their kind."""


class _Kind(msgspec.Struct, frozen=True):
    """Pods by thousandths of a GPU or number of GPUs, and quantiles of their running times in s."""

    pods: dict[int, int]
    run_s: tuple[int, ...]


_KINDS = msgspec.toml.decode(
    (files("lyra_opt.instances.workloads") / "openb_like.toml").read_bytes(), type=dict[str, _Kind]
)
_SLICES = _KINDS["slices"]


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
    kinds = [(kind, size, pods) for kind in _KINDS.values() for size, pods in kind.pods.items()]
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
