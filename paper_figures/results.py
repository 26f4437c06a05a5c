"""Results of a paper's simulations, read from the store, and the functions that measure them.

A paper's file names figures of a replay, or functions of its tables. Each function receives a
replay and, if the file names one, a second replay.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import UserError
from lyra_opt.core.numbers import DAY_S, HOUR_S
from lyra_opt.experiments.simulation.running.replay import step_means
from lyra_opt.experiments.simulation.running.replays import load_replays
from lyra_opt.paper_figures.document import GEOMETRIC, MORE, Measure, by_name
from lyra_opt.paper_figures.setting import Draw, PaperRun, frozen
from lyra_opt.paper_figures.verdicts import gain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.running.replays import Replays
    from lyra_opt.paper_figures.document import PaperTable, PublicationTable
    from lyra_opt.paper_figures.setting import KeyValue, Setting
    from lyra_opt.paper_figures.verdicts import Spread


@dataclass(frozen=True)
class Outcome:
    """A finished simulation, with its figures, its table of jobs and its time series.

    Parameters
    ----------
    record
        The row of the replay in the store.
    replays
        The store.
    """

    record: ReplayRecord
    replays: Replays

    @property
    def figures(self) -> Mapping[str, Any]:
        """The figures of the simulation by name, such as ``jct_mean_s``."""
        return self.record.figures or {}

    @cached_property
    def jobs(self) -> pd.DataFrame:
        """The table of jobs of the simulation, one row per job."""
        return self.replays.jobs(self.record)

    @cached_property
    def series(self) -> pd.DataFrame:
        """The table of the cluster's state over simulated time."""
        return self.replays.series(self.record)


GPUS_PER_LENT_SERVER = 8


def measured(measure: Measure, outcome: Outcome, *beside: Outcome | None) -> float | None:
    """Return a measured quantity of a run; None if a run that it needs is missing.

    Raises
    ------
    UserError
        If there is no such figure or function.
    """
    if None in beside:
        return None
    function = MEASURES.get(measure.of)
    if function is not None:
        value = function(outcome, *beside, **dict(measure.parameters))
    elif measure.of in outcome.figures:
        value = outcome.figures[measure.of]
    else:
        rule = unknown_key(measure.of, [*MEASURES, *outcome.figures])
        raise UserError(f"measure {measure.of!r}: {rule}")
    if value is None:
        value = measure.where_none
    return None if value is None else measure.times * float(value)


def ratio_of_sums(measure: Measure, outcomes: Sequence[Outcome]) -> float | None:
    """Return one figure divided by another, both summed over runs; 0 if the divisor is 0."""
    if not outcomes:
        return None
    whole = math.fsum(outcome.figures[measure.over] for outcome in outcomes)
    part = math.fsum(outcome.figures[measure.of] for outcome in outcomes)
    return measure.times * part / whole if whole else 0.0


def percentile_of_jobs(outcome: Outcome, *, column: str, rank: float) -> float:
    """Return a percentile over jobs of one quantity, a column of a simulation's table of jobs."""
    return float(np.percentile(outcome.jobs[column], rank))


def of_jobs_on_loan(
    outcome: Outcome, other: Outcome, *, column: str, rank: float | None = None
) -> float:
    """Return a mean or percentile over the jobs that ran on lent servers in another simulation.

    The value is 0 without such jobs.
    """
    values = outcome.jobs[column][other.jobs["ran_on_loan"]]
    if not len(values):
        return 0.0
    return float(np.mean(values) if rank is None else np.percentile(values, rank))


def full_use(outcome: Outcome) -> float:  # noqa: ARG001
    """Return 1.0, the upper bound on the share of time for which nodes are busy."""
    return 1.0


def lossy_preemptions_per_submission(outcome: Outcome) -> float:
    """Return the number of preemptions that lose progress, per submitted job."""
    jobs = outcome.jobs
    return float(jobs["preemptions"][~jobs["checkpoints"]].sum()) / len(jobs)


def queued_share(outcome: Outcome, *, take: str, step_s: float, days: int) -> float:
    """Return a statistic of the share of jobs that queue, per time step of submission.

    The statistic is the mean, the median, or the share of steps in which at least half of the jobs
    queue. Steps without submissions are ignored.
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
    """Return the least or the greatest hourly GPU usage of training and inference cluster."""
    series, figures = outcome.series, outcome.figures
    servers = figures["servers"] * figures["gpus_per_server"]
    gpus = servers + figures["inference_servers"] * GPUS_PER_LENT_SERVER
    busy = series["own_gpus_held"] + series["gpus_held_on_loan"] + series["gpus_serving"]
    edges_s = _submitted_from_s(outcome) + HOUR_S * np.arange(first_hour, first_hour + hours + 1.0)
    usage = step_means(series["time_s"].to_numpy(), busy.to_numpy() / gpus, edges_s)
    return float({"least": usage.min, "most": usage.max}[take]())


def daily_loan_usage(outcome: Outcome, *, day: int) -> float | None:
    """Return the share of GPUs on loan that jobs hold on a given day; None without loans.

    Days are counted from 1.
    """
    series = outcome.series
    edges_s = _submitted_from_s(outcome) + DAY_S * np.arange(float(day - 1), day + 1.0)
    held, lent = (
        float(step_means(series["time_s"].to_numpy(), gpus.to_numpy(), edges_s)[0])
        for gpus in (series["gpus_held_on_loan"], series["servers_on_loan"] * GPUS_PER_LENT_SERVER)
    )
    return held / lent if lent else None


def usage_of_lent_servers_in_use(outcome: Outcome) -> float | None:
    """Return the GPU usage of the servers on loan that hold a job; None without such a server.

    This needs a cluster whose own servers are not simulated one by one, so that the series counts
    only busy servers on loan.
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


MEASURES: Mapping[str, Callable[..., float | None]] = by_name(
    percentile_of_jobs,
    of_jobs_on_loan,
    full_use,
    lossy_preemptions_per_submission,
    queued_share,
    hourly_usage,
    daily_loan_usage,
    usage_of_lent_servers_in_use,
)


Outcomes = list[Outcome | None]


class Results:
    """The results of a paper's simulations.

    Parameters
    ----------
    setting
        The paper and the scale.
    folder
        The folder of the store; None if nothing was replayed.
    keys
        The keys of the requested runs, including failed ones.
    """

    def __init__(self, setting: Setting, folder: Path | None, keys: Iterable[str] = ()) -> None:
        self.setting = setting
        self.runs: list[ReplayRecord] = []
        self.failed: dict[str, str] = {}
        self._found: dict[str, Outcome] = {}
        self._key: dict[tuple[PaperRun, Draw], str] = {}
        if folder is None:
            return
        replays, requested = load_replays(folder), set(keys)
        # The store may also hold runs that were not requested.
        self.runs = [record for record in replays.runs if record.key in requested]
        self._found = {record.key: Outcome(record, replays) for record in self.runs}
        self.failed = {
            record.key: record.message or "" for record in replays.failed if record.key in requested
        }

    @property
    def paper(self) -> PaperTable:
        """The contents of the paper's file."""
        return self.setting.paper

    def of(self, run: PaperRun, draw: Draw) -> Outcome | None:
        """Return the finished simulation of a run; None if it failed or was not run."""
        if not self.setting.is_there(run):
            return None
        if (run, draw) not in self._key:
            self._key[run, draw] = self.setting.task(run, draw).key
        return self._found.get(self._key[run, draw])


@dataclass(frozen=True, slots=True)
class Part:
    """A published table or figure, with the results of the paper's simulations.

    Parameters
    ----------
    publication
        The table or figure.
    results
        The results of the whole paper.
    """

    publication: PublicationTable
    results: Results

    @property
    def setting(self) -> Setting:
        """The paper with its scale and number of seeds."""
        return self.results.setting

    def run(self, name: str, changes: Iterable[KeyValue] = ()) -> PaperRun:
        """Return a run, a scheme in a scenario, by its name in the paper's file."""
        table = self.results.paper.runs[name]
        return PaperRun(
            scenario=self.publication.scenario or table.scenario,
            scheme=table.scheme,
            parameters=frozen(table.parameters),
            changes=(*frozen(table.changes), *changes),
        )

    def outcomes(self, run: str | PaperRun) -> Outcomes:
        """Return a run's simulations, one per seed (or other draw); None if missing or failed."""
        run = self.run(run) if isinstance(run, str) else run
        return [self.results.of(run, draw) for draw in self.setting.draws(self.publication)]

    def values(self, measure: Measure, run: str | PaperRun) -> list[float | None]:
        """Return a measured quantity of a run, one value per seed (or other draw)."""
        besides: Outcomes = self.outcomes(measure.beside) if measure.beside else []
        return [
            None if outcome is None else measured(measure, outcome, *beside)
            for outcome, *beside in zip(
                self.outcomes(run), *([besides] if besides else []), strict=True
            )
        ]

    def mean(self, measure: Measure, run: str | PaperRun) -> tuple[float | None, Spread]:
        """Return the mean, over seeds, of a run's measured quantity, with its range."""
        if measure.over:
            return ratio_of_sums(measure, not_none(self.outcomes(run))), None
        return mean_and_spread(not_none(self.values(measure, run)))

    def gains(
        self, measure: Measure, over: str | PaperRun, run: str | PaperRun, *, better: str
    ) -> list[float]:
        """Return the gains of a run over another run, one per seed (or other draw) of both."""
        return gains_of(self.values(measure, over), self.values(measure, run), better=better)


def means_in_words(part: Part, *, words: str, means: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return sentences with means over seeds; no sentences if one of the runs is missing.

    Parameters
    ----------
    words
        The sentences; a name in braces stands for a mean.
    means
        The key ``run``, the measure ``of`` and its unit ``per`` of each mean, by its name.
    """
    found = {}
    for name, each in means.items():
        mean, _ = part.mean(Measure(of=each["of"], where_none=0.0), each["run"])
        if mean is None:
            return []
        found[name] = mean / each.get("per", 1)
    return [words.format(**found)]


def seeds_in_words(part: Part, *, one: str, many: str) -> str:
    """Return the sentence for one seed or for many; "{seeds}" stands for their number."""
    seeds = part.setting.seeds_of(part.publication)
    return one if seeds == 1 else many.format(seeds=seeds)


NOTES: Mapping[str, Callable[..., str | list[str]]] = by_name(means_in_words, seeds_in_words)
"""The functions with which every paper can compute notes."""


def gains_of(
    before: Sequence[float | None], after: Sequence[float | None], *, better: str
) -> list[float]:
    """Return the gain of each value over its reference, without pairs that lack a value."""
    return [gain(*pair, more_is_better=better == MORE) for pair in pairs_of(before, after)]


def pairs_of(
    before: Iterable[float | None], after: Iterable[float | None]
) -> list[tuple[float, float]]:
    """Return each value after its reference, without pairs that lack a value."""
    return [
        (one, other)
        for one, other in zip(before, after, strict=True)
        if one is not None and other is not None
    ]


def short(value: float) -> str:
    """Return a number as text with three significant digits, or rounded to an integer from 1000."""
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def not_none(values: Iterable[Any]) -> list[Any]:
    """Return the values that are not None."""
    return [value for value in values if value is not None]


def mean_and_spread(
    values: Sequence[float], mean: str | None = None
) -> tuple[float | None, Spread]:
    """Return the mean, and the least and greatest value; None for no values."""
    if not values:
        return None, None
    found = statistics.geometric_mean(values) if mean == GEOMETRIC else statistics.fmean(values)
    return found, (min(values), max(values)) if len(values) > 1 else None
