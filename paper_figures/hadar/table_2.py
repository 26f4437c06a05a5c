"""Table 2: job completion time, queuing and fairness, as the conference version claims."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import numpy as np

from paper_figures.comparison import Comparison, Entry, Source
from paper_figures.hadar.cases import (
    HOUR_S,
    REMEMBERED_OF_JOBS,
    TraceCase,
    notes_on_jobs,
    ratios,
    trace_cases,
)
from paper_figures.hadar.schemes import GAVEL, HADAR, NAMES, YARN, notes_on_missing
from paper_figures.hadar.table_1 import SCHEMES, measured
from paper_figures.runs import mean_of_ratios

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paper_figures.hadar.cases import Results, Run, Setting

CURVE_POINTS = 101

CLAIMS = (
    (YARN, "mean JCT over Hadar's", "3", "jct_mean_s", False),
    (GAVEL, "mean JCT over Hadar's", "2.5", "jct_mean_s", False),
    (GAVEL, "Hadar's mean queuing time over it", "0.87", "queue_mean_s", True),
    (GAVEL, "Hadar's mean finish-time fairness over it", "0.985", "fairness_mean", True),
)
"""Scheme, column, the paper's number, measure, and whether Hadar's is over the scheme's."""


def cases(setting: Setting) -> list[TraceCase]:
    """Return what the table is made of."""
    return [case for scheme in SCHEMES for case in trace_cases(scheme, setting)]


def compare(results: Results) -> Comparison:
    """Return the claims beside ours."""
    hadar = results.over_seeds(HADAR)
    entries = []
    for scheme, column, paper, key, is_inverse in CLAIMS:
        pair = results.over_seeds(scheme), hadar
        before, after = reversed(pair) if is_inverse else pair

        def measure(run: object, key: str = key) -> float:
            return float(getattr(run.metrics, key))  # type: ignore[attr-defined]

        mean, spread = mean_of_ratios(ratios(before, after, measure))
        entries.append(
            Entry.published_gain(
                NAMES[scheme], column, paper, mean, spread=spread, source=Source.SECONDARY
            )
        )
    return Comparison(
        name="hadar-table-2",
        title="Hadar (IPDPS 2024), Table 2: completion, queuing and fairness",
        entries=entries,
        remembered=REMEMBERED_OF_JOBS,
        tables=[measured(results)],
        series={
            NAMES[scheme]: _cumulative(run.jct_s)
            for scheme in SCHEMES
            if (run := results.of(TraceCase(scheme=scheme))) is not None
        },
        notes=[
            *notes_on_jobs(),
            "The claims are 3 times shorter JCT than a manager based on YARN, 2.5 times shorter "
            "than Gavel, 13 % less queuing and 1.5 % better finish-time fairness. Against whom the "
            "last two are, and whether fairness is a mean, is not said where they were found: "
            "held against Gavel here, the mean over jobs.",
            "Fairness here is the JCT over that on an equal part of the cluster of its own, "
            "restarts and waits included; below 1 a job fares better. Means are drawn by short "
            "jobs that wait for hours.",
            "All jobs are submitted within eight hours, long before most of the work is done, so "
            "that the mean JCT is decided by the order in which jobs run: Hadar runs short jobs "
            "first, as 1/JCT asks, while max-min fairness gives each its turn.",
            *_waits(hadar, results.over_seeds(GAVEL)),
            *notes_on_missing((HADAR, GAVEL, YARN)),
        ],
    )


def _waits(hadar: Sequence[Run], gavel: Sequence[Run]) -> list[str]:
    """Return why the claims on JCT and on queuing do not go together, if there are runs."""
    if not hadar or not gavel:
        return []
    jct_h, queue_h = (
        statistics.fmean(getattr(run.metrics, key) for run in gavel) / HOUR_S
        for key in ("jct_mean_s", "queue_mean_s")
    )
    return [
        f"Under Gavel {queue_h:.0f} of the {jct_h:.0f} hours of a mean JCT are waits, so that a "
        "JCT 2.5 times shorter would need far more than 13 % off the waits: the two claims cannot "
        "both hold of one workload like this one."
    ]


def _cumulative(values: np.ndarray) -> list[tuple[float, float]]:
    """Return the hours within which a percentage of the jobs complete, for the plot."""
    shares = np.linspace(0, 1, CURVE_POINTS)
    hours = np.quantile(values, shares) / HOUR_S
    return [(float(hour), 100 * float(share)) for hour, share in zip(hours, shares, strict=True)]
