"""Which jobs lose time: the JCT above the least run time, by class of jobs.

The classes are those of the size of a job's gang and of its least run time
(`lyra_opt.simulation.least_run`). For each class, the loss is summed over its jobs and divided by
the number of *all* jobs, so that the classes add up to the mean JCT above the least run time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.gaps import percent_text
from lyra_opt.core.numbers import DAY_S, HOUR_S, duration, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pandas as pd

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.measuring.measures import VariantRuns

GANGS: Mapping[str, float] = {"1 GPU": 1, "2 to 8 GPUs": 8, "over 8 GPUs": float("inf")}
"""Largest gang of each class, by its name. A gang has a job's least number of workers."""

LENGTHS: Mapping[str, float] = {
    "below 1 h": HOUR_S,
    "1 h to 1 day": DAY_S,
    "over 1 day": float("inf"),
}
"""Least run time, in seconds, below which a job belongs to a class, by the class's name."""

CLASSES = tuple(f"{gang}, {length}" for gang in GANGS for length in LENGTHS)
"""Names of all classes."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Parts of the mean JCT above the least run time, one for each class of jobs, for one scheme.

    Parameters
    ----------
    variant, scheme
        Name of the variant, and label of the scheme.
    shares
        Share of each class in all jobs, in the order of `CLASSES`.
    losses_s
        Loss of each class, in seconds per job of any class, in the order of `CLASSES`.
    """

    variant: str
    scheme: str
    shares: tuple[float, ...]
    losses_s: tuple[float, ...]

    def shares_in_words(self) -> list[str]:
        """Return the share of each class in all jobs, as text."""
        return list(map(percent_text, self.shares))

    def cells(self) -> list[str]:
        """Return the sum and the loss of each class with its share in the sum, as text."""
        total_s = sum(self.losses_s)
        unit = unit_of(total_s)
        shares = (loss_s / total_s if total_s else 0.0 for loss_s in self.losses_s)
        return [duration(total_s, unit), *map(percent_text, shares)]


def losses(
    variants: Iterable[VariantRuns], jobs: Callable[[ReplayRecord], pd.DataFrame]
) -> Iterator[Losses]:
    """Yield the losses of each variant and scheme, averaged over all jobs of its runs.

    ``jobs`` reads the table of jobs of a run. Runs that are too old to have least run times are
    left out.
    """
    import numpy as np
    import pandas as pd

    for variant in variants:
        for scheme, runs in variant.by_scheme.items():
            tables = [jobs(run) for run in runs]
            if not all("least_run_s" in table for table in tables):
                continue
            table = pd.concat(tables)
            gangs = np.searchsorted(
                list(GANGS.values()), table.min_workers * table.gpus_per_worker, side="left"
            )
            lengths = np.searchsorted(list(LENGTHS.values()), table.least_run_s, side="right")
            of_job = np.minimum(gangs, len(GANGS) - 1) * len(LENGTHS) + lengths
            # Rounding may put the JCT slightly below the least run time.
            lost_s = np.maximum(0.0, table.jct_s - table.least_run_s)
            counts = np.bincount(of_job, minlength=len(CLASSES))
            sums_s = np.bincount(of_job, weights=lost_s, minlength=len(CLASSES))
            yield Losses(
                variant.name,
                scheme,
                tuple(map(float, counts / len(table))),
                tuple(map(float, sums_s / len(table))),
            )
