"""Table 1: total time duration of other schedulers over Hadar's."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison, Entry, Source, Table
from paper_figures.hadar.cases import (
    REMEMBERED_OF_JOBS,
    TYPES,
    hours,
    notes_on_jobs,
    ratios,
    trace_cases,
)
from paper_figures.hadar.schemes import (
    GAVEL,
    GAVEL_MAKESPAN,
    HADAR,
    NAMES,
    OURS,
    TIRESIAS,
    YARN,
    notes_on_missing,
)
from paper_figures.runs import mean_of_ratios

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paper_figures.hadar.cases import Results, Run, Setting, TraceCase

COLUMN = "TTD over Hadar's"

CLAIMS = (
    (GAVEL, "1.20", Source.ABSTRACT),
    (GAVEL_MAKESPAN, "1.20", Source.ABSTRACT),
    (TIRESIAS, "1.35", Source.MEMORY),
    (YARN, "1.67", Source.MEMORY),
)
SCHEMES = (HADAR, GAVEL, GAVEL_MAKESPAN, TIRESIAS, YARN, OURS)

MEASURES = (
    ("TTD (h)", "makespan_s", 3600.0),
    ("JCT mean (h)", "jct_mean_s", 3600.0),
    ("JCT median (h)", "jct_p50_s", 3600.0),
    ("queue mean (h)", "queue_mean_s", 3600.0),
    ("GPU usage (%)", "gpu_usage", 0.01),
    ("finish-time fairness, mean", "fairness_mean", 1.0),
    ("restarts per job", "restarts", None),
)


def cases(setting: Setting) -> list[TraceCase]:
    """Return what the table is made of."""
    return [case for scheme in SCHEMES for case in trace_cases(scheme, setting)]


def compare(results: Results) -> Comparison:
    """Return the claims beside ours."""
    hadar = results.over_seeds(HADAR)
    entries = []
    for scheme, paper, source in CLAIMS:
        found = ratios(results.over_seeds(scheme), hadar, lambda run: run.ttd_s)
        mean, spread = mean_of_ratios(found)
        entries.append(
            Entry.published_gain(NAMES[scheme], COLUMN, paper, mean, spread=spread, source=source)
        )
    return Comparison(
        name="hadar-table-1",
        title="Hadar, Table 1: total time duration (TTD) on jobs of a trace",
        entries=entries,
        remembered=REMEMBERED_OF_JOBS,
        tables=[measured(results)],
        notes=[
            *notes_on_jobs(),
            "The abstract has one number for Gavel and does not say which of its policies: held "
            "against both the default (max-min fairness) and the one that is made for the TTD.",
            *_why(results),
            *notes_on_missing(SCHEMES),
        ],
    )


def measured(results: Results) -> Table:
    """Return what was measured of each scheme, means over seeds."""
    rows = []
    for scheme in SCHEMES:
        runs = results.over_seeds(scheme)
        if not runs:
            continue
        row = [NAMES[scheme]]
        for _, key, unit in MEASURES:
            values = [
                getattr(run.metrics, key) / (run.metrics.jobs if unit is None else unit)
                for run in runs
            ]
            row.append(_short(statistics.fmean(values)))
        rows.append(row)
    return Table(
        title="What was measured, means over seeds",
        header=["scheme", *(name for name, _, _ in MEASURES)],
        rows=rows,
    )


def _why(results: Results) -> list[str]:
    """Return why ours differ from the paper's, from what the runs show."""
    hadar, yarn, tiresias, gavel, makespan = (
        results.over_seeds(scheme) for scheme in (HADAR, YARN, TIRESIAS, GAVEL, GAVEL_MAKESPAN)
    )
    notes = []
    if hadar and yarn and tiresias:
        named = (("Hadar", hadar), ("Tiresias", tiresias), ("YARN-CS", yarn))
        tails = ", ".join(
            f"{name} {hours(statistics.fmean(run.ttd_s - run.last_tenth_from_s for run in runs))} h"
            for name, runs in named
        )
        usage = ", ".join(f"{name} {_usage(runs)}" for name, runs in named)
        notes.append(
            "Tiresias and YARN-CS end later than in the paper because neither looks at the type "
            "of GPU: a job of class XL that happens to be on a K80, where ResNet-50 is a seventh "
            "as fast as on a V100, stays there, in the end while V100 idle. From the completion of "
            f"nine tenths of the jobs to that of the last it takes {tails}; usage over the TTD is "
            f"{usage}."
        )
    if hadar and gavel and makespan:
        notes.append(
            "Hadar's utility is the mean of 1/JCT, which prefers short jobs and leaves long ones "
            "to the end; the TTD is a by-product. Gavel's makespan policy aims at the TTD itself "
            f"and keeps {100 * statistics.fmean(run.metrics.gpu_usage for run in makespan):.0f} % "
            "of the GPUs at work, Hadar "
            f"{100 * statistics.fmean(run.metrics.gpu_usage for run in hadar):.0f} %, Gavel's "
            "max-min policy "
            f"{100 * statistics.fmean(run.metrics.gpu_usage for run in gavel):.0f} %."
        )
    return notes


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def _usage(runs: Sequence[Run]) -> str:
    """Return the mean usage of each type of GPU, in words."""
    shares = [
        f"{100 * statistics.fmean(run.metrics.gpu_usage_by_type[name] for run in runs):.0f} % of "
        f"the {name.upper()}"
        for name in (TYPES[0], TYPES[-1])
    ]
    return " and ".join(shares)
