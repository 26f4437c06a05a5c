"""Scaling rules of the simulated cluster that know goodput."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.result import Limits
from lyra_opt.simulation.decisions import LONGEST_DECISION_S, ScalingRule
from lyra_opt.simulation.goodput.pollux import (
    PolluxEpoch,
    best_allocation,
    most_valuable,
    restart_factor,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.allocation.knapsack.data import FloatArray
    from lyra_opt.simulation.goodput.tuning import TunedSpeed
    from lyra_opt.simulation.run import Run
    from lyra_opt.simulation.view import View


class _TunedScaling(ScalingRule):
    """A rule for jobs that are tuned.

    Parameters
    ----------
    tuned
        Their rates.
    """

    tuned: TunedSpeed

    def __init__(self, tuned: TunedSpeed) -> None:
        self.tuned = tuned

    def rates(self, run: Run, free_gpus: int) -> FloatArray:
        """Return a job's rates with 0, 1, ... workers beyond its base demand that could fit."""
        job = run.job
        fitting = min(job.max_workers - job.min_workers, free_gpus // job.gpus_per_worker)
        return self.tuned.rates(job)[: max(fitting, run.flexible_workers) + 1]


class PolluxScaling(_TunedScaling):
    """Pollux: the workers of greatest fitness, found exactly.

    One object a simulation, since it counts restarts: a job that has other workers than when it was
    last seen has restarted.

    The speed-ups are those of `TunedSpeed`, which the job agent measures, against the fair share
    of all GPUs that the jobs hold or could. Other than in Pollux, jobs keep their base demand, and
    a job may get at once all the workers it can use, not at most twice as many as it has had.
    """

    def __init__(self, tuned: TunedSpeed) -> None:
        super().__init__(tuned)
        self._seen: dict[int, tuple[int, int]] = {}

    def epoch(self, runs: Sequence[Run], free_gpus: int) -> PolluxEpoch:
        """Return the question that `extra_workers` answers, and note what jobs have now."""
        gpus = free_gpus + sum(run.job.min_gpus for run in runs)
        now_s = max((run.updated_s for run in runs), default=0.0)
        speed_ups, factors = [], []
        for run in runs:
            job = run.job
            fair_workers = max(1, -(-gpus // (len(runs) * job.gpus_per_worker)))
            rates = self.rates(run, free_gpus)
            speed_ups.append(rates / self.tuned.rate(job, fair_workers))
            factors.append(restart_factor(now_s - job.submit_s, self._restarts(run)))
        return PolluxEpoch(
            gpus=free_gpus,
            speed_ups=tuple(speed_ups),
            gpus_per_worker=np.array([run.job.gpus_per_worker for run in runs], dtype=np.int64),
            current=np.array([run.flexible_workers for run in runs], dtype=np.int64),
            restart_factor=np.array(factors, dtype=np.float64),
        )

    def extra_workers(
        self,
        view: View,  # noqa: ARG002
        runs: Sequence[Run],
        free_gpus: int,
        *,
        name: str,  # noqa: ARG002
    ) -> list[int]:
        """See `ScalingRule`. Nothing is captured: no standalone problem has speed-up tables."""
        limits = Limits(time_s=LONGEST_DECISION_S)
        extra: list[int] = best_allocation(self.epoch(runs, free_gpus), limits).tolist()
        return extra

    def _restarts(self, run: Run) -> int:
        """Return how often a job has restarted, and note what it has now."""
        workers, restarts = self._seen.get(run.order, (run.workers, 0))
        restarts += run.workers != workers
        self._seen[run.order] = run.workers, restarts
        return restarts


class TunedKnapsackScaling(_TunedScaling):
    """Lyra's phase 2 for jobs that are tuned: the knapsack on their reduction of running time.

    As `lyra_opt.simulation.decisions.KnapsackScaling`, with the durations at the rates of
    `TunedSpeed` in the place of linear ones. Complexity: that of `mckp-core`. Source: Lyra (EuroSys
    2023), sections 5.2 and 7.1 (Lyra+TunedJobs).
    """

    def extra_workers(
        self,
        view: View,
        runs: Sequence[Run],
        free_gpus: int,
        *,
        name: str,  # noqa: ARG002
    ) -> list[int]:
        """See `ScalingRule`. Nothing is captured: no standalone problem has such durations."""
        values = []
        for run in runs:
            duration_s = view.speed.believed_left_worker_s(run) / self.rates(run, free_gpus)
            values.append(duration_s[0] - duration_s[1:])
        sizes = np.array([run.job.gpus_per_worker for run in runs], dtype=np.int64)
        limits = Limits(time_s=LONGEST_DECISION_S)
        extra: list[int] = most_valuable(free_gpus, values, sizes, limits).tolist()
        return extra
