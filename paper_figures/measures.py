"""What papers measure of a replay beyond its figures: functions of its tables, named in the files.

Each takes the outcome of a replay, and beside it that of another where the file names one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import UserError
from lyra_opt.experiments.simulation.running.replay import step_means

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lyra_opt.paper_figures.document import Measure
    from lyra_opt.paper_figures.outcome import Outcome

HOUR_S, DAY_S = 3600, 86_400
GPUS_PER_LENT_SERVER = 8


def measured(measure: Measure, outcome: Outcome, *beside: Outcome | None) -> float | None:
    """Return a measure of a run; None where what it is compared with is not there.

    Raises
    ------
    UserError
        If there is no such figure or function.
    """
    if None in beside:
        return None
    function = FUNCTIONS.get(measure.of)
    if function is not None:
        value = function(outcome, *beside, **dict(measure.parameters))
    elif measure.of in outcome.figures:
        value = outcome.figures[measure.of]
    else:
        rule = unknown_key(measure.of, [*FUNCTIONS, *outcome.figures])
        raise UserError(f"measure {measure.of!r}: {rule}")
    if value is None:
        value = measure.where_none
    return None if value is None else measure.times * float(value)


def ratio_of_sums(measure: Measure, outcomes: Sequence[Outcome]) -> float | None:
    """Return a figure over another one, both added up over runs; 0 where there is nothing."""
    if not outcomes:
        return None
    whole = math.fsum(outcome.figures[measure.over] for outcome in outcomes)
    part = math.fsum(outcome.figures[measure.of] for outcome in outcomes)
    return measure.times * part / whole if whole else 0.0


def percentile_of_jobs(outcome: Outcome, *, column: str, rank: float) -> float:
    """Return a percentile of a column of the table of jobs."""
    return float(np.percentile(outcome.jobs[column], rank))


def of_jobs_on_loan(
    outcome: Outcome, other: Outcome, *, column: str, rank: float | None = None
) -> float:
    """Return mean or percentile over the jobs that ran on loan in another run; 0 of none."""
    values = outcome.jobs[column][other.jobs["ran_on_loan"]]
    if not len(values):
        return 0.0
    return float(np.mean(values) if rank is None else np.percentile(values, rank))


def full_use(outcome: Outcome) -> float:  # noqa: ARG001
    """Return the share of the time that nodes are busy under no scheduler more of: all of it."""
    return 1.0


def lossy_preemptions_per_submission(outcome: Outcome) -> float:
    """Return the preemptions that cost a job its progress, for each job."""
    jobs = outcome.jobs
    return float(jobs["preemptions"][~jobs["checkpoints"]].sum()) / len(jobs)


def queued_share(outcome: Outcome, *, take: str, step_s: float, days: int) -> float:
    """Return mean, median, or the share at 0.5 or more, of the shares of jobs that queue.

    Shares are of the jobs submitted within each step of the first days, steps without any left
    out.
    """
    jobs = outcome.jobs
    submit_s = jobs["submit_s"].to_numpy()
    place = ((submit_s - submit_s[0]) // step_s).astype(np.int64)
    queued = jobs["queued_s"].to_numpy() > 0
    steps = range(int(days * DAY_S // step_s))
    shares = np.array([np.mean(queued[place == step]) for step in steps if np.any(place == step)])
    takes: dict[str, Callable[[np.ndarray], Any]] = {
        "mean": np.mean,
        "median": np.median,
        "share at half or more": lambda values: np.mean(values >= 0.5),
    }
    return float(takes[take](shares))


def hourly_usage(outcome: Outcome, *, take: str, first_hour: int, hours: int) -> float:
    """Return the least or the most of the usage of both clusters together, hour by hour."""
    series, figures = outcome.series, outcome.figures
    servers = figures["servers"] * figures["gpus_per_server"]
    gpus = servers + figures["inference_servers"] * GPUS_PER_LENT_SERVER
    busy = series["own_gpus_held"] + series["gpus_held_on_loan"] + series["gpus_serving"]
    edges_s = _submitted_from_s(outcome) + HOUR_S * np.arange(first_hour, first_hour + hours + 1.0)
    usage = step_means(series["time_s"].to_numpy(), busy.to_numpy() / gpus, edges_s)
    return float({"least": usage.min, "most": usage.max}[take]())


def daily_loan_usage(outcome: Outcome, *, day: int) -> float | None:
    """Return the share of the GPUs on loan that jobs hold on a day, from 1; None without loans."""
    series = outcome.series
    edges_s = _submitted_from_s(outcome) + DAY_S * np.arange(float(day - 1), day + 1.0)
    held, lent = (
        float(step_means(series["time_s"].to_numpy(), gpus.to_numpy(), edges_s)[0])
        for gpus in (series["gpus_held_on_loan"], series["servers_on_loan"] * GPUS_PER_LENT_SERVER)
    )
    return held / lent if lent else None


def usage_of_lent_servers_in_use(outcome: Outcome) -> float | None:
    """Return the share of GPUs held on those servers on loan that hold any job; None without any.

    Where own servers are only counted, so that the series has the busy ones among the lent.
    """
    series = outcome.series
    edges_s = series["time_s"].to_numpy()[[0, -1]]
    held, servers = (
        float(step_means(series["time_s"].to_numpy(), series[name].to_numpy(), edges_s)[0])
        for name in ("gpus_held_on_loan", "busy_servers")
    )
    return held / (servers * GPUS_PER_LENT_SERVER) if servers else None


def _submitted_from_s(outcome: Outcome) -> float:
    return float(outcome.jobs["submit_s"].iloc[0])


FUNCTIONS: Mapping[str, Callable[..., float | None]] = {
    function.__name__: function
    for function in (
        percentile_of_jobs,
        of_jobs_on_loan,
        full_use,
        lossy_preemptions_per_submission,
        queued_share,
        hourly_usage,
        daily_loan_usage,
        usage_of_lent_servers_in_use,
    )
}
