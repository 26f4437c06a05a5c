"""The sets of jobs of Dally's experiments, as far as their files tell: counts and sizes.

Source: the job files of Dally's public simulator (aakash-sharma/cluster-sim), counted. Which model
goes with which gang, and how long each job is, are drawn: the counts and a few figures of the work
are what is used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.instances.randomness import IntegerStream

KindT = TypeVar("KindT")

HOUR_MS = 3_600_000
LEAST_WORK_H = 2.0
MOST_WORK_H = 323.8

_PARTS = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSet:
    """Jobs by what they train, by GPUs, and how much they work.

    The work of a job is log-normal between `LEAST_WORK_H` and `MOST_WORK_H`, with the median and
    the mean that were published.

    Parameters
    ----------
    name
        What workloads are called after.
    models
        How many jobs train each model.
    gangs
        How many jobs have so many GPUs.
    log_work_h, log_spread
        Mean and standard deviation of the logarithm of the hours on one GPU, before the ends are
        cut off.
    """

    name: str
    models: Mapping[str, int]
    gangs: Mapping[int, int]
    log_work_h: float
    log_spread: float

    @property
    def jobs(self) -> int:
        """All of them."""
        return sum(self.models.values())

    def work_h(self, share: float) -> float:
        """Return the hours on one GPU below which this share of the jobs is; 0 < share < 1."""
        normal = NormalDist(self.log_work_h, self.log_spread)
        below, above = normal.cdf(math.log(LEAST_WORK_H)), normal.cdf(math.log(MOST_WORK_H))
        return math.exp(normal.inv_cdf(below + share * (above - below)))

    def drawn_work_ms(self, jobs: int, stream: IntegerStream) -> list[int]:
        """Return the work of so many jobs, in milliseconds on one GPU, in no order.

        One from each of equally likely intervals, so that the figures hold for every seed and not
        only in the mean over seeds. Whole milliseconds: the last digit of a logarithm may differ
        between machines.
        """
        drawn = [
            round(HOUR_MS * self.work_h((place + stream.below(_PARTS) / _PARTS) / jobs))
            for place in range(jobs)
        ]
        stream.shuffle(drawn)
        return drawn


BATCH = JobSet(
    name="dally-batch",
    models={
        "mobilenetv3": 125,
        "bert": 125,
        "resnet50": 125,
        "alexnet": 53,
        "resnet18": 38,
        "vgg11": 34,
    },
    gangs={1: 270, 2: 13, 4: 52, 8: 109, 16: 42, 32: 11, 40: 1, 48: 1, 56: 1},
    log_work_h=2.71378,
    log_spread=1.05032,
)
"""500 jobs. Work: median 15.6 h and mean 26.1 h, from 2.0 h to 323.8 h, all as published."""

DISTRIBUTED = JobSet(
    name="dally-distributed",
    models={
        "mobilenetv3": 125,
        "bert": 125,
        "resnet50": 125,
        "alexnet": 29,
        "vgg11": 4,
        "resnet18": 3,
    },
    gangs={2: 41, 3: 1, 4: 96, 8: 190, 16: 56, 32: 23, 40: 2, 48: 1, 56: 1},
    log_work_h=2.95908,
    log_spread=1.05999,
)
"""411 jobs of several GPUs. Work: median 19.6 h and mean 32.6 h, as published; its ends are taken
from `BATCH`."""


def apportioned(counts: Mapping[KindT, int], total: int) -> list[KindT]:
    """Return `total` entries whose kinds have the shares of `counts`, kind by kind.

    The numbers of each are the counts themselves where `total` is their sum. By largest remainder
    else, the earlier kind first where remainders are equal. O(kinds log kinds + total).

    >>> apportioned({"a": 3, "b": 2, "c": 1}, 4)
    ['a', 'a', 'b', 'c']
    """
    everything = sum(counts.values())
    whole = {kind: total * count // everything for kind, count in counts.items()}
    left = total - sum(whole.values())
    by_remainder = sorted(counts, key=lambda kind: -(total * counts[kind] % everything))
    for kind in by_remainder[:left]:
        whole[kind] += 1
    return [kind for kind, count in whole.items() for _ in range(count)]
