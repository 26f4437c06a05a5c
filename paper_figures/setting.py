"""The scale of a paper's simulations, and the simulations that its tables and figures need."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lyra_opt.experiments.records import ReplayRecord, StudyRecord
from lyra_opt.experiments.simulation.running.tasks import ReplayTask
from lyra_opt.experiments.simulation.scenario.loading import Change, Scenario, load_scenario
from lyra_opt.instances.traces import locate
from lyra_opt.paper_figures.document import PaperTable, PublicationTable
from lyra_opt.simulation.scheme import scheme_names

KeyValue = tuple[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRun:
    """A run of a paper's file: a scheme in a scenario, with changed parameters and keys.

    Parameters
    ----------
    scenario, scheme
        Their names.
    parameters
        Parameters that replace those of the scheme.
    changes
        Keys that replace those of the scenario.
    """

    scenario: str
    scheme: str
    parameters: tuple[KeyValue, ...] = ()
    changes: tuple[KeyValue, ...] = ()

    @property
    def label(self) -> str:
        """The name of the scheme with its parameters, as written in the store."""
        return " ".join([self.scheme, *(f"{name}={value}" for name, value in self.parameters)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A seed or a changed scenario, for one of the simulations over which a mean is taken.

    Parameters
    ----------
    seed
        The seed of all random numbers.
    changes
        Keys that replace those of the scenario.
    """

    seed: int = 0
    changes: tuple[KeyValue, ...] = ()


@dataclass(frozen=True)
class Setting:
    """A paper with the scale and the number of seeds of its simulations.

    Parameters
    ----------
    paper
        The paper's file.
    scale
        The simulated size as a share of the paper's, above 0 and at most 1.
    seeds
        The number of draws per mean, unless a table sets its own.
    """

    paper: PaperTable
    scale: float
    seeds: int

    @cached_property
    def sizes(self) -> Mapping[str, int | float]:
        """Simulated sizes at the chosen scale, such as numbers of servers and jobs, by name."""
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
        """Return a sentence on the size of the simulation."""
        return self.filled(self.paper.setting)

    def filled(self, text: str) -> str:
        """Return a text in which numbers replace the names of sizes in braces."""
        words = {"scale": f"{self.scale:g}", "seeds": self.seeds, **self.sizes}
        if "{setting}" in text:
            words["setting"] = self.in_words()
        return text.format(**words)

    def valued(self, value: Any) -> Any:
        """Return the value of a scenario key, in which numbers replace names of sizes."""
        if isinstance(value, dict):
            return {name: self.valued(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.valued(each) for each in value]
        if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
            return self.sizes[value[1:-1]]
        return value

    def draws(self, publication: PublicationTable) -> list[Draw]:
        """Return the seeds, or values that replace seeds, over which a table's means are taken."""
        drawn = publication.draws
        if drawn is not None:
            values = drawn.values or range(self.valued(drawn.count))
            return [Draw(changes=((drawn.of, value),)) for value in values]
        return [Draw(seed=seed) for seed in range(self.seeds_of(publication))]

    def seeds_of(self, publication: PublicationTable) -> int:
        """Return the number of seeds over which the means of a table are taken."""
        most = publication.most_seeds
        return publication.seeds if most is None else min(most, self.seeds)

    def changes_of(self, scenario: str) -> tuple[str, list[KeyValue]]:
        """Return the bundled scenario that a paper's scenario is based on, and the changed keys."""
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
        """Whether a run is possible, because its scheme exists and its traces are present."""
        return run.scheme in scheme_names() and not self.missing_traces(run.scenario)

    def missing_traces(self, scenario: str) -> list[str]:
        """Return the names of missing traces that a scenario needs."""
        table = self.paper.scenarios[scenario]
        further = self.missing_traces(table.like) if table.like in self.paper.scenarios else []
        return [*further, *(name for name in table.needs if not locate(name).is_file())]

    def loaded(self, run: PaperRun, draw: Draw) -> Scenario:
        """Return the scenario of a simulation with all changes applied."""
        like, changes = self.changes_of(run.scenario)
        changes += [*run.changes, *draw.changes]
        if run.parameters:
            scheme = {"name": run.scheme, "label": run.label, **dict(run.parameters)}
            changes.append(("schemes", [scheme]))
        return load_scenario(like, [Change(path, _plain(value)) for path, value in changes])

    def task(self, run: PaperRun, draw: Draw, position: int = 0) -> ReplayTask:
        """Return a simulation as a task for the executor."""
        return ReplayTask(
            scenario=self.loaded(run, draw),
            point={"scenario": run.scenario, **dict(run.changes), **dict(draw.changes)},
            schemes=(),  # a paper does not list the schemes that could run its jobs
            scheme=run.label,
            seed=draw.seed,
            position=position,
        )

    def study(self, tasks: Sequence[ReplayTask], command: str) -> StudyRecord:
        """Return the study record for the store that all tables of a paper share."""
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
    """Return a value with lists instead of tuples, as scenario files need it."""
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def frozen(changes: Mapping[str, Any]) -> tuple[KeyValue, ...]:
    """Return a mapping as a hashable tuple of pairs."""
    return tuple(changes.items())
