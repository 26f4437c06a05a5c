"""Policies that order jobs by a key, and fill the GPUs in that order: ``sjf`` and ``srw``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.allocation.heuristics.policy_solver import StepPolicy
from lyra_opt.allocation.schedules.evaluator import FluidState
from lyra_opt.allocation.schedules.kernel import FILL_BASES_FIRST, decide_by_rule
from lyra_opt.allocation.schedules.moldable import moldable_schedule
from lyra_opt.core.stopwatch import OutOfTimeError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from lyra_opt.allocation.instance import ElasticJob, Instance, Schedule


@dataclass(frozen=True, slots=True)
class Key:
    """A key that orders jobs, the least first: slope * remaining work + offset.

    Keys are compared after rounding to 40 significant bits; equal ones go in file order.

    Parameters
    ----------
    slope, offset
        Of each job.
    """

    slope: Callable[[ElasticJob], float]
    offset: Callable[[ElasticJob], float]

    def set_in(self, state: FluidState) -> None:
        """Order the jobs of `state` by this key."""
        jobs = state.instance.jobs
        state.set_keys([self.slope(job) for job in jobs], [self.offset(job) for job in jobs])


def remaining_times(slope: Callable[[ElasticJob], float]) -> Key:
    """Return the key slope * remaining work."""
    return Key(slope=slope, offset=lambda _: 0.0)


SHORTEST_JOB = Key(slope=lambda _: 0.0, offset=lambda job: job.work_worker_s / job.max_workers)
"""The original work over w_max: the running time with the most workers, before it starts."""

REMAINING_WORK = remaining_times(lambda _: 1.0)
"""In worker-seconds."""

REMAINING_GPU_WORK = remaining_times(lambda job: float(job.gpus_per_worker))
"""In GPU-seconds."""

REMAINING_WORK_ROOT_GPUS = remaining_times(lambda job: math.sqrt(job.gpus_per_worker))
"""Remaining work times the root of the GPUs per worker: between the two above."""

REMAINING_GPU_WORK_ROOT_BASE = remaining_times(
    lambda job: job.gpus_per_worker / math.sqrt(job.min_workers)
)
"""Remaining GPU work over the root of w_min: jobs that may not wait for GPUs one by one."""

REMAINING_TIME = remaining_times(lambda job: 1.0 / job.max_workers)
"""Remaining work over w_max."""


@dataclass(frozen=True, slots=True)
class Fill:
    """A rule of `lyra_opt.allocation.schedules.kernel` with the key that it orders jobs by.

    Parameters
    ----------
    rule
        ``FILL_BASES_FIRST``, ``FILL_ONE_BY_ONE``, ``FILL_IN_TURN`` or ``MARGINAL``.
    key
        The key.
    """

    rule: int
    key: Key

    def run(self, state: FluidState, *, decides: bool) -> None:
        """Simulate the rule to the end; `decides` as for `FluidState.run`."""
        self.key.set_in(state)
        state.run(self.rule, decides=decides)


class PriorityFill(StepPolicy):
    """Fill in order of a key: base demands first, then extra workers in the same order.

    At each decision started jobs keep their base demands, waiting jobs get theirs in order of
    key if it fits (one that does not is skipped), and then each started job, in the same order,
    gets as many extra workers as it can use and as are left.

    Simulated to the end by one kernel. Complexity O(A) a decision and one step for each pair of
    jobs that change places in the order, O(J^2) in all in practice.
    """

    key: Key

    def prepare(self, state: FluidState) -> None:
        """Order jobs by the key."""
        self.key.set_in(state)

    def decide(self, state: FluidState) -> None:
        """Fill once."""
        state.decide(decide_by_rule, FILL_BASES_FIRST)

    def schedule(
        self,
        instance: Instance,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Schedule:
        """Return the schedule that the key makes, by one kernel to its end."""
        state = FluidState(instance)
        Fill(FILL_BASES_FIRST, self.key).run(state, decides=False)
        return state.schedule()


def quick_schedule(instance: Instance) -> Schedule:
    """Return the schedule of ``srw``, or one of moldable jobs where there is no time for that."""
    state = FluidState(instance)
    try:
        Fill(FILL_BASES_FIRST, REMAINING_WORK).run(state, decides=False)
    except OutOfTimeError:
        return moldable_schedule(instance)
    return state.schedule()


class ShortestJobFirst(PriorityFill):
    """Shortest job first: `PriorityFill` by work / w_max, the original work.

    Source: phase 1 of Lyra (EuroSys 2023), section 5.2, with the extra workers given in the same
    order, which is right on the paper's first example (table 2) and wrong on its second (table
    4: 63.33 against 62). Complexity as `PriorityFill`. Guarantee: none where jobs queue; a job
    that is nearly done keeps the rank of its original work.
    """

    name = "sjf"
    key = SHORTEST_JOB


class SmallestRemainingWork(PriorityFill):
    """Smallest remaining work first: `PriorityFill`, malleable shortest remaining time first.

    Source: this project. Shortest remaining time first is optimal for one machine with preemption
    (Schrage 1968): the case in which every job can use all GPUs and none needs any. Complexity as
    `PriorityFill`. Guarantee: none where jobs queue. It lets every job start that fits before the
    shortest may grow: on J GPUs, J jobs of equal work with 1 to J workers run side by side and all
    end at the end, where one after the other would halve the mean JCT.
    """

    name = "srw"
    key = REMAINING_WORK
