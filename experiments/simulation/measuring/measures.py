"""The measures of a simulation, in words, and how their values are shown."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lyra_opt.experiments.tables import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


class Unit(NamedTuple):
    """A unit of time.

    Parameters
    ----------
    name
        In the plural.
    symbol
        As it stands behind a number.
    seconds
        How long it is.
    least_s
        Duration from which it is used.
    """

    name: str
    symbol: str
    seconds: int
    least_s: float


UNITS = (
    Unit("days", "d", DAY_S, 3 * DAY_S),
    Unit("hours", "h", HOUR_S, HOUR_S),
    Unit("minutes", "min", MINUTE_S, 2 * MINUTE_S),
    Unit("seconds", "s", 1, 0.0),
)


def unit_of(duration_s: float) -> Unit:
    """Return the unit for durations like this one.

    >>> unit_of(90).symbol, unit_of(14_400).symbol, unit_of(300_000).symbol
    ('s', 'h', 'd')
    """
    return next(unit for unit in UNITS if abs(duration_s) >= unit.least_s)


def three_digits(value: float) -> str:
    """Return a number with three digits or more, never with an exponent above 1.

    >>> three_digits(1234.5), three_digits(12.34), three_digits(0.21), three_digits(0.0)
    ('1,234', '12.3', '0.210', '0')
    """
    size = abs(value)
    if size == 0:
        return "0"
    if size < 1:
        return f"{value:#.3g}"
    return f"{value:,.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f}"


def duration(value_s: float, unit: Unit | None = None) -> str:
    """Return a duration with its unit; None takes the one that suits it.

    >>> duration(5400), duration(-5400)
    ('1.50 h', '−1.50 h')
    """
    chosen = unit or unit_of(value_s)
    return f"{three_digits(value_s / chosen.seconds)} {chosen.symbol}".replace("-", "−")


LESS, MORE = "less", "more"

FEW = 100
"""Means of counts below it have decimals."""


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


def _ratio(value: float) -> str:
    return f"{value:.4f}"


def _two_digits(value: float) -> str:
    return f"{value:,.2f}"


def _counts(by_tier: Mapping[str, int]) -> str:
    return " / ".join(map(show_count, by_tier.values()))


def _shares(by_tier: Mapping[str, float]) -> str:
    whole = sum(by_tier.values())
    return " / ".join(show_percent(value / whole) for value in by_tier.values())


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
    better
        `LESS` or `MORE`, where schemes are better by it; None where it is only a fact.
    """

    key: str
    name: str
    show: Callable[[Any], str]
    meaning: str = ""
    better: str | None = None

    def of(self, record: Mapping[str, Any]) -> str:
        """Return the measure of a run as tables show it."""
        return self.shown(record.get(self.key))

    def shown(self, value: Any) -> str:
        """Return a value as tables show it; None has nothing to show."""
        return NOTHING if value is None else self.show(value)


TIME_PART_NAMES: Mapping[str, str] = {
    "least_run_mean_s": "least run time",
    "queue_first_mean_s": "queuing before the start",
    "queue_again_mean_s": "queuing after the start",
    "lost_work_mean_s": "lost work",
    "fewer_workers_mean_s": "fewer workers than most",
    "slower_type_mean_s": "slower GPUs",
    "slower_placement_mean_s": "slower placement",
    "pause_mean_s": "pauses",
}
"""What the mean JCT of a replay is the sum of, in words."""


def _part(key: str, meaning: str = "", *, better: str | None = LESS) -> Measure:
    return Measure(key, f"JCT, of it {TIME_PART_NAMES[key]} (s)", _seconds, meaning, better)


TIME_PARTS = (
    _part(
        "least_run_mean_s",
        "What a job takes at the best rate that it can have on this cluster under this scheme. "
        'It and what else a mean JCT has "of it" add up to that; what is 0 throughout is left out.',
        better=None,
    ),
    _part("queue_first_mean_s"),
    _part("queue_again_mean_s", "After preemptions, and between leases or rounds."),
    _part("lost_work_mean_s", "What the work that preemptions made vain takes at the best rate."),
    _part(
        "fewer_workers_mean_s",
        "What a job loses that runs with fewer workers, or copies, than at its best.",
    ),
    _part(
        "slower_type_mean_s",
        "What it loses by the types of its GPUs, beside the best ones for as many workers; also by "
        "being on several types, or on own and borrowed GPUs, at once.",
    ),
    _part(
        "slower_placement_mean_s",
        "What it loses by where these GPUs are: on several servers, or in several racks.",
    ),
    _part(
        "pause_mean_s",
        "In which it holds GPUs and does nothing: restarts, moves, merges of copies.",
    ),
)

MEASURES = (
    Measure("jobs", "Jobs", show_count),
    Measure("finished", "Finished", show_count, better=MORE),
    Measure(
        "queue_mean_s",
        "Queuing time, mean (s)",
        _seconds,
        "The sum of all waits of a job, those after preemptions included, over all jobs; "
        "percentiles interpolate linearly between jobs.",
        better=LESS,
    ),
    Measure(
        "queue_mean_bound_s",
        "Queuing time, mean: proved to be at least (s)",
        _seconds,
        "No schedule of these jobs has less; a job that holds GPUs does not queue, even if it "
        "does nothing on them.",
    ),
    Measure("queue_p50_s", "Queuing time, median (s)", _seconds, better=LESS),
    Measure("queue_p95_s", "Queuing time, 95th percentile (s)", _seconds, better=LESS),
    Measure("queue_p99_s", "Queuing time, 99th percentile (s)", _seconds, better=LESS),
    Measure("queue_max_s", "Queuing time, longest (s)", _seconds, better=LESS),
    Measure(
        "jct_mean_s",
        "JCT, mean (s)",
        _seconds,
        "Job completion time: from submission to completion, over all jobs.",
        better=LESS,
    ),
    Measure(
        "jct_mean_bound_s",
        "JCT, mean: proved to be at least (s)",
        _seconds,
        "No schedule of these jobs has less, whatever its rule and whatever it knows: a bound by "
        "prices of GPU time. It holds for what all of the schemes may do: see bound_reading in the "
        "formats.",
    ),
    Measure(
        "jct_above_bound_share",
        "JCT, mean: above what is proved (%)",
        show_percent,
        "How far the mean JCT is above the proved bound, as a share of the bound: at most so much "
        "is lost beside the best schedule that there is.",
        better=LESS,
    ),
    *TIME_PARTS,
    Measure("jct_p50_s", "JCT, median (s)", _seconds, better=LESS),
    Measure("jct_p95_s", "JCT, 95th percentile (s)", _seconds, better=LESS),
    Measure("jct_p99_s", "JCT, 99th percentile (s)", _seconds, better=LESS),
    Measure("jct_min_s", "JCT, shortest (s)", _seconds),
    Measure("jct_max_s", "JCT, longest (s)", _seconds, better=LESS),
    Measure(
        "makespan_s",
        "Makespan (s)",
        _seconds,
        "From the first submission to the last completion.",
        better=LESS,
    ),
    Measure(
        "makespan_bound_s",
        "Makespan: proved to be at least (s)",
        _seconds,
        "No schedule of these jobs is shorter; with copies for schemes that run copies of jobs.",
    ),
    Measure(
        "fairness_mean",
        "Finish-time fairness, mean",
        _two_digits,
        "JCT of a job over the JCT that it would have on an equal n-th part of the cluster of its "
        "own, n being the mean number of jobs that are there while it is (Themis, from memory; "
        "the speed on the n-th part as in Gavel). Below 1 it fares better.",
        better=LESS,
    ),
    Measure("fairness_max", "Finish-time fairness, worst", _two_digits, better=LESS),
    Measure(
        "cru",
        "Cluster resource utilisation, CRU (%)",
        show_percent,
        "Time for which servers work, over servers and makespan. It says nothing of idle GPUs on a "
        "server that works.",
        better=MORE,
    ),
    Measure(
        "gpu_usage",
        "GPU usage (%)",
        show_percent,
        "GPU-seconds that jobs hold, pauses for restarts, moves and merges included, as a share of "
        "what there are over the makespan.",
        better=MORE,
    ),
    Measure(
        "computing_usage",
        "GPUs that compute (%)",
        show_percent,
        "GPU-seconds of computing, as such a share: usage without communication.",
        better=MORE,
    ),
    Measure(
        "communication_share",
        "Communication (%)",
        show_percent,
        "GPU-seconds in which gangs ran and waited for the network, as a share of those in which "
        "they ran.",
        better=LESS,
    ),
    Measure(
        "communication_s",
        "Communication of a job, mean (GPU s)",
        _seconds,
        "GPU-seconds in which a gang ran and waited for the network.",
        better=LESS,
    ),
    Measure(
        "hand_over_share",
        "GPUs handed over (%)",
        show_percent,
        "GPU-seconds in which GPUs were neither held nor free, as a share of what there are: with "
        "leases, those handed over after each of them; in rounds, those of a job that completes "
        "before its round ends.",
        better=LESS,
    ),
    Measure(
        "allocations_by_tier",
        "Allocations: machine / rack / network",
        _counts,
        "How often a gang got GPUs of one machine, of several machines of a rack, and of several "
        "racks.",
    ),
    Measure(
        "gpu_s_by_tier",
        "GPU time: machine / rack / network (%)",
        _shares,
        "GPU-seconds held by gangs on one machine, in one rack, and in several.",
    ),
    Measure(
        "fragmented_machines_mean",
        "Machines partly free (%)",
        show_percent,
        "In the mean over the makespan.",
        better=LESS,
    ),
    Measure(
        "stranded_share",
        "Free GPUs on such machines (%)",
        show_percent,
        "Share of the free GPU-seconds on machines that were partly free.",
        better=LESS,
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
        better=MORE,
    ),
    Measure(
        "overall_usage",
        "Overall usage (%)",
        show_percent,
        "Over both clusters: GPUs held by jobs, on loan too, and inference GPUs that serve.",
        better=MORE,
    ),
    Measure(
        "overall_usage_while_submitting",
        "Overall usage while jobs are submitted (%)",
        show_percent,
        better=MORE,
    ),
    Measure(
        "loan_usage",
        "Usage of servers on loan (%)",
        show_percent,
        "GPU-seconds that jobs hold on servers on loan, as a share of theirs.",
    ),
    Measure(
        "loan_usage_while_submitting",
        "Usage of servers on loan while jobs are submitted (%)",
        show_percent,
    ),
    Measure(
        "lease_losses",
        "Leases lost",
        show_count,
        "How often a gang had to give its GPUs back before it was complete; in rounds, how often "
        "it was left out of the next one.",
        better=LESS,
    ),
    Measure(
        "preemptions",
        "Preemptions",
        show_count,
        "How often a job that was not complete lost its GPUs and did not run on as soon as it "
        "could have: to reclaiming, to another job, at the end of a lease or of a round.",
        better=LESS,
    ),
    Measure("preemptions_per_submission", "Preemptions per submission", _ratio, better=LESS),
    Measure(
        "restarts",
        "Restarts",
        show_count,
        "How often a job began elsewhere than before, or after a wait; first starts not counted.",
        better=LESS,
    ),
    Measure(
        "migrations",
        "Migrations",
        show_count,
        "How often a gang got other machines, or other numbers of their GPUs, than the last time: "
        "it moved, or had lost what it had.",
        better=LESS,
    ),
    Measure(
        "copies_mean",
        "Copies of a job, mean",
        _two_digits,
        "Over the time for which it runs; 1 without forking.",
    ),
    Measure("copies_max", "Copies of a job, most", show_count),
    Measure(
        "collateral_share",
        "Collateral damage (%)",
        show_percent,
        "GPUs vacated on servers that were not given back, as a share of the GPUs of those that "
        "were.",
        better=LESS,
    ),
    Measure("loans", "Loans", show_count, "How often servers were lent, of whatever number."),
    Measure("reclaims", "Reclaims", show_count, "How often servers were called back."),
    Measure("returned_servers", "Servers returned", show_count),
    Measure(
        "hosted_at_reclaims",
        "Jobs on loan at reclaims",
        show_count,
        "Jobs that held GPUs on loan when servers were called back, added up over the reclaims.",
    ),
    Measure(
        "inference_shortfall_share",
        "Intervals with shortfall (%)",
        show_percent,
        "Intervals in which the inference cluster's need and the servers on loan together exceed "
        "it: what loans by forecast risk.",
        better=LESS,
    ),
    Measure(
        "scaling_operations",
        "Scaling operations",
        show_count,
        "How often an elastic job was resized, to admit another job not counted.",
    ),
    Measure("rounds", "Rounds", show_count, "In which jobs were there."),
    Measure("decisions", "Decisions", show_count, "How often the scheme was asked."),
    Measure(
        "decision_mean_s",
        "Decision time, mean (ms)",
        show_milliseconds,
        "Wall time that the scheme takes to decide; rounds in which nothing can change are not "
        "decided anew.",
        better=LESS,
    ),
    Measure(
        "decision_p99_s", "Decision time, 99th percentile (ms)", show_milliseconds, better=LESS
    ),
    Measure("decision_max_s", "Decision time, longest (ms)", show_milliseconds, better=LESS),
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
        _two_digits,
        "What the GPUs that jobs held cost, borrowed ones too, in the unit of the prices per hour.",
    ),
    Measure(
        "wall_time_s",
        "Wall time (s)",
        lambda value: f"{value:.2f}",
        "Of the simulation alone, without reading jobs and writing results.",
        better=LESS,
    ),
    Measure(
        "jobs_per_cpu_s",
        "Jobs per CPU second",
        lambda value: f"{value:,.0f}",
        "By the processor time of the process, loading of solvers included.",
        better=MORE,
    ),
)


def shown_measures(
    records: Sequence[Mapping[str, Any]], measures: Sequence[Measure] = MEASURES
) -> list[Measure]:
    """Return the measures that say something: those with a value in any run.

    Parts of the JCT that are 0 in all runs say nothing either: no scheme has such GPUs, or copies.
    """

    def says_something(measure: Measure) -> bool:
        values = [record.get(measure.key) for record in records]
        return any(values) if measure in TIME_PARTS else any(each is not None for each in values)

    return [measure for measure in measures if says_something(measure)]


def mean_shown(values: Sequence[Any], show: Callable[[Any], str]) -> str:
    """Return the mean of a measure over runs as tables show it; None stands for no value."""
    known = [value for value in values if value is not None]
    if not all(isinstance(value, int | float) for value in known):
        return show(known[0]) if len(known) == 1 else NOTHING
    if not known:
        return NOTHING
    mean = statistics.fmean(known)
    if not all(isinstance(value, int) for value in known):
        return show(mean)
    return three_digits(mean) if mean < FEW and mean != round(mean) else show(round(mean))


def spread_shown(values: Sequence[Any], show: Callable[[Any], str]) -> str:
    """Return the least and the greatest value of runs as tables show them; empty if equal."""
    known = [value for value in values if value is not None]
    if not known or not all(isinstance(value, int | float) for value in known):
        return ""
    least, greatest = show(min(known)), show(max(known))
    return f"{least} – {greatest}" if least != greatest else ""
