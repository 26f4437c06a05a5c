"""What a simulation reports, in words: the rows of its tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.tables import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def show_percent(value: float) -> str:
    """Return a share in percent."""
    return f"{100 * value:.1f}"


def show_count(value: int) -> str:
    """Return a number of things."""
    return f"{value:,}"


def show_milliseconds(value: float) -> str:
    """Return seconds in milliseconds."""
    return f"{1000 * value:.2f}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "job"), counted(2000, "job")
    ('1 job', '2,000 jobs')
    """
    return f"{number:,} {noun}" + "s" * (number != 1)


def _ratio(value: float) -> str:
    return f"{value:.4f}"


@dataclass(frozen=True, slots=True)
class Measure:
    """A row of the tables.

    Parameters
    ----------
    key
        Of ``simulate --json``.
    name
        In words, its unit in brackets.
    show
        Returns a value as tables show it.
    meaning
        A sentence or two; empty where the one above it or the name says it.
    """

    key: str
    name: str
    show: Callable[[Any], str]
    meaning: str = ""

    def of(self, record: Mapping[str, Any]) -> str:
        """Return the measure of a run as tables show it."""
        value = record.get(self.key)
        return NOTHING if value is None else self.show(value)


WISH_MEASURES = (
    Measure(
        "jct_weighted_mean_s",
        "JCT, weighted mean (s)",
        _seconds,
        "By the weights of the jobs.",
    ),
    Measure(
        "missed_deadlines",
        "Deadlines missed",
        show_count,
        "Jobs that completed after their deadline.",
    ),
    Measure(
        "missed_deadline_share",
        "Deadlines missed (%)",
        show_percent,
        "As a share of the jobs that have one.",
    ),
    Measure(
        "cost",
        "Cost",
        lambda value: f"{value:,.2f}",
        "What the GPUs that jobs held cost, borrowed ones too, in the unit of the prices per hour.",
    ),
)
"""Of runs whose jobs have weights or deadlines, or whose GPUs have prices."""

MEASURES = (
    Measure("jobs", "Jobs", show_count),
    Measure("finished", "Finished", show_count),
    Measure(
        "queue_mean_s",
        "Queuing time, mean (s)",
        _seconds,
        "The sum of all waits of a job, those after preemptions included, over all jobs; "
        "percentiles interpolate linearly between jobs.",
    ),
    Measure("queue_p50_s", "Queuing time, median (s)", _seconds),
    Measure("queue_p95_s", "Queuing time, 95th percentile (s)", _seconds),
    Measure("queue_p99_s", "Queuing time, 99th percentile (s)", _seconds),
    Measure(
        "jct_mean_s",
        "JCT, mean (s)",
        _seconds,
        "Job completion time: from submission to completion, over all jobs.",
    ),
    Measure("jct_p50_s", "JCT, median (s)", _seconds),
    Measure("jct_p95_s", "JCT, 95th percentile (s)", _seconds),
    Measure("jct_p99_s", "JCT, 99th percentile (s)", _seconds),
    Measure(
        "makespan_s",
        "Makespan (s)",
        _seconds,
        "From the first submission to the last completion.",
    ),
    Measure(
        "training_usage",
        "Training usage (%)",
        show_percent,
        "GPU-seconds that jobs hold on training servers, as a share of what these have over the "
        "makespan. It is low where few long jobs end late.",
    ),
    Measure(
        "training_usage_while_submitting",
        "Training usage while jobs are submitted (%)",
        show_percent,
        "The same from the first submission to the last, by the means of the time series.",
    ),
    Measure(
        "overall_usage",
        "Overall usage (%)",
        show_percent,
        "Over both clusters: GPUs held by jobs, on loan too, and inference GPUs that serve.",
    ),
    Measure(
        "overall_usage_while_submitting", "Overall usage while jobs are submitted (%)", show_percent
    ),
    Measure(
        "loan_usage",
        "Usage of servers on loan (%)",
        show_percent,
        "GPU-seconds that jobs hold on servers on loan, as a share of theirs.",
    ),
    Measure("preemptions", "Preemptions", show_count, "Jobs sent back to the queue by reclaiming."),
    Measure("preemptions_per_submission", "Preemptions per submission", _ratio),
    Measure(
        "collateral_share",
        "Collateral damage (%)",
        show_percent,
        "GPUs vacated on servers that were not given back, as a share of the GPUs of those that "
        "were.",
    ),
    Measure("loans", "Loans", show_count, "How often servers were lent, of whatever number."),
    Measure("reclaims", "Reclaims", show_count, "How often servers were called back."),
    Measure("returned_servers", "Servers returned", show_count),
    Measure(
        "inference_shortfall_share",
        "Intervals with shortfall (%)",
        show_percent,
        "Intervals in which the inference cluster's need and the servers on loan together exceed "
        "it: what loans by forecast risk.",
    ),
    Measure(
        "scaling_operations",
        "Scaling operations",
        show_count,
        "How often an elastic job was resized, to admit another job not counted.",
    ),
    *WISH_MEASURES,
    Measure(
        "wall_time_s",
        "Wall time (s)",
        lambda value: f"{value:.2f}",
        "Of the simulation alone, without reading jobs and writing results.",
    ),
    Measure(
        "jobs_per_cpu_s",
        "Jobs per CPU second",
        lambda value: f"{value:,.0f}",
        "By the processor time of the process, loading of solvers included.",
    ),
)


def shown_measures(
    records: Sequence[Mapping[str, Any]], measures: Sequence[Measure] = MEASURES
) -> list[Measure]:
    """Return the measures that say something: those with a value in any run."""
    return [
        measure
        for measure in measures
        if any(record.get(measure.key) is not None for record in records)
    ]
