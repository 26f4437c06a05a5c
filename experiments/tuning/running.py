"""Run a tuning file into a store: the search, the comparison and what a clairvoyant could do."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.messages import say
from lyra_opt.commands.progress import progress
from lyra_opt.core.errors import FieldError, InputError, counted
from lyra_opt.experiments.executor import open_store, terminating_like_ctrl_c
from lyra_opt.experiments.pool import LocalProcesses
from lyra_opt.experiments.records import ERROR, ReplayRecord, StudyRecord
from lyra_opt.experiments.simulation.scenario.loading import variants
from lyra_opt.experiments.simulation.scenario.schemes import files_of_schemes, make_schemes
from lyra_opt.experiments.simulation.scenario.setup import SimulationError
from lyra_opt.experiments.tuning.outcome import (
    AUTO_TUNER,
    BEST,
    JCT,
    Compared,
    Found,
    with_clairvoyant,
)
from lyra_opt.experiments.tuning.search import best_of, search
from lyra_opt.experiments.tuning.tasks import (
    BOUND,
    SCHEDULE,
    TIMERS,
    ClairvoyantTask,
    CompiledTask,
    TrialTask,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from lyra_opt.experiments.pool import Engine
    from lyra_opt.experiments.records import RunRecord
    from lyra_opt.experiments.simulation.scenario.loading import Scenario
    from lyra_opt.experiments.store import ResultStore
    from lyra_opt.experiments.tuning.search import Steps
    from lyra_opt.experiments.tuning.tuning_file import Tuning, TuningTable

COMPILED = "compiled"
"""An axis of runs where trials are compiled: "yes" or "no"."""


@dataclass(kw_only=True)
class _Runs:
    """The rows of a store, with those of more tasks as they are asked for."""

    store: ResultStore
    engine: Engine
    folder: Path
    advance: Callable[[], None]
    known: dict[str, ReplayRecord]
    waiting: deque[TrialTask] = field(default_factory=deque)
    records: Generator[RunRecord, None, None] | None = None

    def rows(self, tasks: Sequence[TrialTask]) -> list[ReplayRecord]:
        """Return the row of each task, running those that the store does not hold.

        Raises
        ------
        SimulationError
            If a run ended in an error.
        """
        new = dict.fromkeys(each.key for each in tasks if each.key not in self.known)
        by_key = {each.key: each for each in tasks}
        for position, key in enumerate(new, len(self.known)):
            self.waiting.append(replace(by_key[key], position=position))
        # Local workers stay for the tasks to come; a scheduler is given each batch by itself.
        stays = isinstance(self.engine, LocalProcesses)
        if new and self.records is None:
            self.records = self.engine.start(self.waiting, self.folder).records
        for _ in new:
            assert self.records is not None, "it was started"
            record = next(self.records)
            assert isinstance(record, ReplayRecord), "trials are simulations"
            self.store.add(record)
            if record.status == ERROR:
                raise SimulationError(f"{record.key}: {record.message}")
            self.known[record.key] = record
            self.advance()
        if not stays and self.records is not None:
            self.records.close()
            self.records = None
            self.waiting.clear()
        return [self.known[each.key] for each in tasks]


@dataclass(frozen=True, kw_only=True)
class _Point:
    """A point of the scenario's axes, which is tuned by itself."""

    tuning: Tuning
    point: Mapping[str, Any]
    variant: Scenario

    @property
    def table(self) -> TuningTable:
        return self.tuning.table

    @property
    def labels(self) -> tuple[str, ...]:
        """The schemes: the tuned one first."""
        return tuple(each.label for each in self.variant.table.schemes)

    def tasks(
        self,
        values: Sequence[float],
        seeds: Sequence[int],
        *,
        scheme: str = "",
        compiled: bool | None = None,
        kind: type[TrialTask] = TrialTask,
        **options: Any,
    ) -> list[TrialTask]:
        """Return the runs of some values under a scheme, the tuned one if none is named."""
        compiled = self.table.compiled if compiled is None else compiled
        chosen = dict(zip((each.path for each in self.table.parameters), values, strict=True))
        marked = {COMPILED: "yes" if compiled else "no"} if self.table.compiled else {}
        scenario = self.tuning.with_values(self.variant, values)
        return [
            (CompiledTask if compiled else kind)(
                scenario=scenario,
                point={**self.point, **chosen, **marked},
                schemes=self.labels,
                scheme=scheme or self.labels[0],
                seed=seed,
                position=0,
                measures=tuple(self.table.measures),
                **options,
            )
            for seed in seeds
        ]

    def check(self) -> None:
        """Raise `UserError` for all that can be wrong before the first run."""
        table = self.table
        middle = [each.value((each.least + each.most) // 2) for each in table.parameters]
        for values in [middle, *(each.values for each in table.start)]:
            for task in self.tasks(values, [*table.seeds, *table.judged]):
                make_schemes(task.scenario, self.labels)
                if isinstance(task, CompiledTask):
                    task.require_possible(self.tuning.source)
                elif values is middle:
                    cluster = task.setup().cluster
                    if table.clairvoyant is not None and cluster.topology is None:
                        rule = "clairvoyant: the scenario must have a network"
                        raise InputError(self.tuning.source, rule)

    def figures(self, runs: _Runs, tasks: Sequence[TrialTask]) -> list[dict[str, float]]:
        """Return the measures of runs; `SimulationError` if a run has not measured one."""
        return [_figures(row, self.table.measures) for row in runs.rows(tasks)]

    def found(self, runs: _Runs) -> Found:
        """Search, and compare the best with the others."""
        table, count = self.table, len(self.table.seeds)

        def means(candidates: Sequence[Steps]) -> list[Mapping[str, float]]:
            values = [
                [each.value(steps[each.path]) for each in table.parameters] for steps in candidates
            ]
            tasks = [task for each in values for task in self.tasks(each, table.seeds)]
            found = self.figures(runs, tasks)
            return [
                {
                    name: math.fsum(each[name] for each in found[place : place + count]) / count
                    for name in table.measures
                }
                for place in range(0, len(found), count)
            ]

        trials = search(table, means)
        best = best_of(trials).values(table)
        others = () if table.targets else self.labels[1:]
        asked = [
            *((each.name, each.values, self.labels[0], table.compiled) for each in table.start),
            (BEST, best, self.labels[0], table.compiled),
            *((label, best, label, False) for label in others),
        ]
        replays = self.tasks(best, table.judged or table.seeds, compiled=False)
        tasks = [
            self.tasks(values, seeds, scheme=scheme, compiled=compiled)
            for _, values, scheme, compiled in asked
            for seeds in (table.seeds, table.judged)
        ]
        runs.rows([*chain(*tasks), *replays])  # at once, so that they run side by side
        figures = [self.figures(runs, each) for each in tasks]
        rows: Sequence[Compared] = [
            Compared(name=name, tuned=figures[2 * place], judged=figures[2 * place + 1])
            for place, (name, *_) in enumerate(asked)
        ]
        if table.clairvoyant is not None:
            in_order = [each.name for each in table.start] + [BEST]
            in_order += [AUTO_TUNER] if AUTO_TUNER in others else []
            timers, schedules = self._clairvoyant(runs, best)
            rows = with_clairvoyant(rows, timers, schedules, in_order)
        replayed = self.figures(runs, replays)
        sentences = (each for row in runs.rows(replays) for each in row.assumptions)
        return Found(
            table=table,
            point=self.point,
            trials=trials,
            compared=rows,
            replayed=replayed if table.compiled and table.judged else (),
            assumptions=list(dict.fromkeys(sentences)),
        )

    def _clairvoyant(
        self, runs: _Runs, best: Sequence[float]
    ) -> Iterator[list[Mapping[str, float]]]:
        """Yield the figures of clairvoyant timers, and of clairvoyant schedules with bounds."""
        for label, names in ((TIMERS, (JCT,)), (SCHEDULE, (JCT, BOUND))):
            tasks = self.tasks(
                best,
                self.table.seeds,
                scheme=label,
                kind=ClairvoyantTask,
                changes=self.table.clairvoyant,
            )
            yield [_figures(row, names) for row in runs.rows(tasks)]


def _figures(row: ReplayRecord, names: Sequence[str]) -> dict[str, float]:
    """Return some figures of a run; `SimulationError` if it has not measured one."""
    found = {name: (row.figures or {}).get(name) for name in names}
    for name, value in found.items():
        if not isinstance(value, int | float):
            raise SimulationError(f"{row.key}: has no number {name}")
    return {name: float(value) for name, value in found.items() if value is not None}


def run_tuning(
    tuning: Tuning, folder: Path, *, engine: Engine, resume: bool, command: str | None
) -> tuple[StudyRecord, list[Found], list[ReplayRecord]]:
    """Run a tuning file into the store of a folder; return the study, the results and its rows.

    An interrupted search goes on: it makes the same choices, from the rows that are stored.

    Raises
    ------
    UserError
        If the file names something wrong, or the store cannot be written or is of other runs.
    SimulationError
        If a run ended in an error.
    """
    table = tuning.table
    for parameter in table.parameters:
        if parameter.path in tuning.scenario.table.axes:
            rule = "must not be an axis of the scenario too"
            raise InputError(tuning.source, str(FieldError("parameters", parameter.path, rule)))
    points = [
        _Point(tuning=tuning, point=point, variant=variant)
        for point, variant in variants(tuning.scenario)
    ]
    for each in points:
        each.check()
    labels = list(points[0].labels)
    files = files_of_schemes(tuning.scenario, labels)
    meaning = f"{tuning.scenario.meaning_hash} {table} {list(files.values())}"
    trials = table.trials + table.refinements + 2 * (len(table.start) + len(labels))
    study = StudyRecord(
        name=table.name,
        kind=ReplayRecord.kind,
        description=table.description,
        text=tuning.text,
        meaning_hash=hashlib.sha256(meaning.encode()).hexdigest(),
        runs=trials * len(table.seeds) * len(points),
        settings={"schemes": [*labels, TIMERS, SCHEDULE], "command": command, "tuning": True}
        | ({"files": files} if files else {}),
    )
    with open_store(study, folder, resume=resume) as store:
        known = {each.key: each for each in store.runs() if each.status != ERROR}
        say(f"{study.name}: {counted(len(known), 'run')} stored already")
        showing = progress(study.name, max(1, study.runs - len(known)))
        with terminating_like_ctrl_c(), showing as advance:
            runs = _Runs(store=store, engine=engine, folder=folder, advance=advance, known=known)
            try:
                found = [each.found(runs) for each in points]
            finally:
                if runs.records is not None:
                    runs.records.close()
        return study, found, list(runs.known.values())
