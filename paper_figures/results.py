"""What came of the replays of a paper, read back from its store."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.experiments.simulation.running.replays import load_replays
from lyra_opt.paper_figures import measures
from lyra_opt.paper_figures.document import GEOMETRIC, MORE
from lyra_opt.paper_figures.outcome import Outcome
from lyra_opt.paper_figures.setting import Draw, Run, named_run
from lyra_opt.paper_figures.verdicts import gain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.paper_figures.document import Measure, PaperTable, PublicationTable
    from lyra_opt.paper_figures.setting import KeyValue, Setting
    from lyra_opt.paper_figures.verdicts import Spread

Outcomes = list[Outcome | None]


class Results:
    """What came of the replays of a paper.

    Parameters
    ----------
    setting
        How much was simulated.
    folder
        Of the store; None where nothing had to be replayed.
    keys
        Keys of the runs that were asked for, failed ones too.
    """

    def __init__(self, setting: Setting, folder: Path | None, keys: Iterable[str] = ()) -> None:
        self.setting = setting
        self.runs: list[ReplayRecord] = []
        self.failed: dict[str, str] = {}
        self._found: dict[str, Outcome] = {}
        self._key: dict[tuple[Run, Draw], str] = {}
        if folder is None:
            return
        replays, asked = load_replays(folder), set(keys)
        # The store may hold runs of tables that were not asked for.
        self.runs = [record for record in replays.runs if record.key in asked]
        self._found = {record.key: Outcome(record, replays) for record in self.runs}
        self.failed = {
            record.key: record.message or "" for record in replays.failed if record.key in asked
        }

    @property
    def paper(self) -> PaperTable:
        """What is published."""
        return self.setting.paper

    def of(self, run: Run, draw: Draw) -> Outcome | None:
        """Return what came of a run; None if it was not run, or failed."""
        if not self.setting.is_there(run):
            return None
        if (run, draw) not in self._key:
            self._key[run, draw] = self.setting.task(run, draw).key
        return self._found.get(self._key[run, draw])


@dataclass(frozen=True, slots=True)
class Part:
    """The results of a table or figure.

    Parameters
    ----------
    publication
        Which of them.
    results
        Of the paper.
    """

    publication: PublicationTable
    results: Results

    @property
    def setting(self) -> Setting:
        """How much was simulated."""
        return self.results.setting

    def run(self, name: str, changes: Iterable[KeyValue] = ()) -> Run:
        """Return a run of the file as this table has it."""
        table = self.results.paper.runs[name]
        return named_run(table, scenario=self.publication.scenario, changes=changes)

    def outcomes(self, run: str | Run) -> Outcomes:
        """Return what came of a run, by draw of the table; None for what failed or was not run."""
        run = self.run(run) if isinstance(run, str) else run
        return [self.results.of(run, draw) for draw in self.setting.draws(self.publication)]

    def values(self, measure: Measure, run: str | Run) -> list[float | None]:
        """Return a measure of a run, by draw."""
        besides: Outcomes = self.outcomes(measure.beside) if measure.beside else []
        return [
            None if outcome is None else measures.measured(measure, outcome, *beside)
            for outcome, *beside in zip(
                self.outcomes(run), *([besides] if besides else []), strict=True
            )
        ]

    def mean(self, measure: Measure, run: str | Run) -> tuple[float | None, Spread]:
        """Return the mean of a measure over draws, and the least and the greatest of several."""
        if measure.over:
            return measures.ratio_of_sums(measure, there(self.outcomes(run))), None
        return mean_and_spread(there(self.values(measure, run)))

    def gains(
        self, measure: Measure, over: str | Run, run: str | Run, *, better: str
    ) -> list[float]:
        """Return the gains of a run over another, draw by draw, where both are there."""
        return gains_of(self.values(measure, over), self.values(measure, run), better=better)


def gains_of(
    before: Sequence[float | None], after: Sequence[float | None], *, better: str
) -> list[float]:
    """Return the gain of each value over another, where both are there."""
    return [
        gain(one, other, more_is_better=better == MORE)
        for one, other in zip(before, after, strict=True)
        if one is not None and other is not None
    ]


def there(values: Iterable[Any]) -> list[Any]:
    """Return those that are not None."""
    return [value for value in values if value is not None]


def mean_and_spread(
    values: Sequence[float], mean: str | None = None
) -> tuple[float | None, Spread]:
    """Return the mean and, of several values, the least and the greatest; None without any."""
    if not values:
        return None, None
    found = statistics.geometric_mean(values) if mean == GEOMETRIC else statistics.fmean(values)
    return found, (min(values), max(values)) if len(values) > 1 else None


def paired_gain(
    before: Sequence[float | None], after: Sequence[float | None], *, better: str
) -> float | None:
    """Return the geometric mean of gains, or the gain of the means if a value is 0."""
    pairs = [
        (one, other)
        for one, other in zip(before, after, strict=True)
        if one is not None and other is not None
    ]
    if not pairs:
        return None
    is_more = better == MORE
    if min(map(min, pairs)) > 0:
        return statistics.geometric_mean(gain(*pair, more_is_better=is_more) for pair in pairs)
    return gain(*map(statistics.fmean, zip(*pairs, strict=True)), more_is_better=is_more)
