"""How much of a paper is simulated, and which replays its tables and figures ask for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lyra_opt.experiments.records import ReplayRecord, StudyRecord
from lyra_opt.experiments.simulation.running.tasks import ReplayTask
from lyra_opt.experiments.simulation.scenario.loading import Change, Scenario, load_scenario
from lyra_opt.instances.traces import locate
from lyra_opt.simulation.scheme import scheme_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.paper_figures.document import PaperTable, PublicationTable

KeyValue = tuple[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRun:
    """A scheme in a scenario of the paper.

    Parameters
    ----------
    scenario, scheme
        Their names.
    parameters
        What is other than the scheme has it.
    changes
        Keys of the scenario that are other.
    """

    scenario: str
    scheme: str
    parameters: tuple[KeyValue, ...] = ()
    changes: tuple[KeyValue, ...] = ()

    @property
    def label(self) -> str:
        """What its scheme is called in the store."""
        return " ".join([self.scheme, *(f"{name}={value}" for name, value in self.parameters)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One of several replays that a mean is over.

    Parameters
    ----------
    seed
        Of all that is drawn.
    changes
        Keys of the scenario that are other.
    """

    seed: int = 0
    changes: tuple[KeyValue, ...] = ()


@dataclass(frozen=True)
class Setting:
    """A paper at a scale.

    Parameters
    ----------
    paper
        What is published.
    scale
        Size as a share of the paper's, above 0, at most 1.
    seeds
        How many draws means are over, where tables do not say otherwise.
    """

    paper: PaperTable
    scale: float
    seeds: int

    @cached_property
    def sizes(self) -> Mapping[str, int | float]:
        """The paper's sizes at this scale, by name."""
        return {name: self._size(name) for name in self.paper.sizes}

    def _size(self, name: str) -> int | float:
        size = self.paper.sizes[name]
        if self.scale < 1 and size.below_full is not None:
            value = size.below_full
        elif size.follows is None:
            value = size.full * self.scale
        else:
            value = size.full * self._size(size.follows) / self.paper.sizes[size.follows].full
        value = max(size.least, round(value) if size.whole else value)
        return int(value) if size.whole else value

    def in_words(self) -> str:
        """Return how much is simulated, in a sentence."""
        return self.filled(self.paper.setting)

    def filled(self, text: str) -> str:
        """Return a sentence with the sizes that it names."""
        words = {"scale": f"{self.scale:g}", "seeds": self.seeds, **self.sizes}
        if "{setting}" in text:
            words["setting"] = self.in_words()
        return text.format(**words)

    def valued(self, value: Any) -> Any:
        """Return the value of a key, or the size for which it stands."""
        if isinstance(value, dict):
            return {name: self.valued(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.valued(each) for each in value]
        if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
            return self.sizes[value[1:-1]]
        return value

    def draws(self, publication: PublicationTable) -> list[Draw]:
        """Return what the means of a table are over."""
        drawn = publication.draws
        if drawn is not None:
            values = drawn.values or range(self.valued(drawn.count))
            return [Draw(changes=((drawn.of, value),)) for value in values]
        return [Draw(seed=seed) for seed in range(self.seeds_of(publication))]

    def seeds_of(self, publication: PublicationTable) -> int:
        """Return how many seeds the means of a table are over."""
        most = publication.most_seeds
        return publication.seeds if most is None else min(most, self.seeds)

    def changes_of(self, scenario: str) -> tuple[str, list[KeyValue]]:
        """Return the bundled scenario behind one of the paper, and what is other in it."""
        table = self.paper.scenarios[scenario]
        like = table.like
        changes: list[KeyValue] = []
        if like in self.paper.scenarios:
            like, changes = self.changes_of(like)
        changes += table.changes.items()
        if self.scale < 1:
            changes += table.below_full.items()
        return like, [(path, self.valued(value)) for path, value in changes]

    def is_there(self, run: PaperRun) -> bool:
        """Whether there is such a scheme, and what the scenario needs."""
        return run.scheme in scheme_names() and not self.missing_traces(run.scenario)

    def missing_traces(self, scenario: str) -> list[str]:
        """Return the traces that a scenario needs and that are not there."""
        table = self.paper.scenarios[scenario]
        further = self.missing_traces(table.like) if table.like in self.paper.scenarios else []
        return [*further, *(name for name in table.needs if not locate(name).is_file())]

    def loaded(self, run: PaperRun, draw: Draw) -> Scenario:
        """Return the scenario of a replay."""
        like, changes = self.changes_of(run.scenario)
        changes += [*run.changes, *draw.changes]
        if run.parameters:
            scheme = {"name": run.scheme, "label": run.label, **dict(run.parameters)}
            changes.append(("schemes", [scheme]))
        return load_scenario(like, [Change(path, _plain(value)) for path, value in changes])

    def task(self, run: PaperRun, draw: Draw, position: int = 0) -> ReplayTask:
        """Return a replay as the executor takes it."""
        return ReplayTask(
            scenario=self.loaded(run, draw),
            point={"scenario": run.scenario, **dict(run.changes), **dict(draw.changes)},
            schemes=(),  # which other schemes could run the jobs is nothing to a paper
            scheme=run.label,
            seed=draw.seed,
            position=position,
        )

    def study(self, tasks: Sequence[ReplayTask], command: str) -> StudyRecord:
        """Return what the store of a paper belongs to; any of its tables may go on with it."""
        scenarios = {}
        for name in self.paper.scenarios:
            like, changes = self.changes_of(name)
            document = load_scenario(like).document
            scenarios[name] = [document, changes]
        meaning = json.dumps([self.paper.name, scenarios], sort_keys=True, default=str)
        return StudyRecord(
            name=self.paper.name,
            kind=ReplayRecord.kind,
            description=self.in_words(),
            text=self.paper.title,
            meaning_hash=hashlib.sha256(meaning.encode()).hexdigest(),
            runs=len(tasks),
            settings={"scale": self.scale, "seeds": self.seeds, "command": command},
        )


def _plain(value: Any) -> Any:
    """Return a value as a scenario file has it."""
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def frozen(changes: Mapping[str, Any]) -> tuple[KeyValue, ...]:
    """Return the changes of a table, fit for a key of a dictionary."""
    return tuple(changes.items())
