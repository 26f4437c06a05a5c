"""The scaling rule of the simulated cluster that knows goodput."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.result import Limits
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.simulation.decisions import LONGEST_DECISION_S, ScalingRule
from lyra_opt.simulation.goodput.pollux import most_valuable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.allocation.knapsack.data import FloatArray
    from lyra_opt.simulation.goodput.tuning import TunedSpeed
    from lyra_opt.simulation.run import Run
    from lyra_opt.simulation.view import View


class TunedKnapsackScaling(ScalingRule):
    """Lyra's phase 2 for jobs that are tuned: the knapsack on their reduction of running time.

    As `lyra_opt.simulation.decisions.KnapsackScaling`, with the durations at the rates of
    `TunedSpeed` in the place of linear ones. Complexity: that of `mckp-core`. Source: Lyra (EuroSys
    2023), sections 5.2 and 7.1 (Lyra+TunedJobs).

    Parameters
    ----------
    tuned
        The rates.
    """

    tuned: TunedSpeed

    def __init__(self, tuned: TunedSpeed) -> None:
        self.tuned = tuned

    def rates(self, run: Run, free_gpus: int) -> FloatArray:
        """Return a job's rates with 0, 1, ... workers beyond its base demand that could fit."""
        job = run.job
        fitting = min(job.max_workers - job.min_workers, free_gpus // job.gpus_per_worker)
        return self.tuned.rates(job)[: max(fitting, run.flexible_workers) + 1]

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
        with limited_to(Limits(time_s=LONGEST_DECISION_S)):
            extra: list[int] = most_valuable(free_gpus, values, sizes).tolist()
        return extra
