"""Run a tuning into a store: search, comparison, and clairvoyant schedules."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.messages import say
from lyra_opt.commands.progress import progress
from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import FieldError, InputError, counted
from lyra_opt.experiments.executor import open_store, terminating_like_ctrl_c
from lyra_opt.experiments.pool import LocalProcesses
from lyra_opt.experiments.records import ERROR, ReplayRecord, StudyRecord
from lyra_opt.experiments.simulation.scenario.loading import load_scenario, variants
from lyra_opt.experiments.simulation.scenario.schemes import files_of_schemes, make_schemes
from lyra_opt.experiments.simulation.scenario.setup import SimulationError
from lyra_opt.experiments.tuning.outcome import (
    AUTO_TUNER,
    BEST,
    JCT,
    PROVED,
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
from lyra_opt.experiments.tuning.tuning_file import RowTable, changes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from lyra_opt.experiments.pool import Engine
    from lyra_opt.experiments.records import RunRecord
    from lyra_opt.experiments.simulation.scenario.loading import Scenario
    from lyra_opt.experiments.store import ResultStore
    from lyra_opt.experiments.tuning.search import Steps
    from lyra_opt.experiments.tuning.tuning_file import Tuning, TuningTable

COMPILED = "compiled"
"""Axis of runs whose trials are compiled; its values are "yes" and "no"."""
ROW = "row"
"""Axis of runs that belong to a row of the tuning file; its values are the names of the rows."""


@dataclass(kw_only=True)
class _Runs:
    """The simulations of a tuning, which are read from the store or run on demand."""

    store: ResultStore
    engine: Engine
    folder: Path
    advance: Callable[[], None]
    known: dict[str, ReplayRecord]
    positions: dict[str, int] = field(default_factory=dict)
    waiting: deque[TrialTask] = field(default_factory=deque)
    records: Generator[RunRecord, None, None] | None = None

    def rows(self, tasks: Sequence[TrialTask]) -> list[ReplayRecord]:
        """Return the row of each task; tasks without a stored row are run.

        Raises
        ------
        SimulationError
            If a run ended in an error.
        """
        by_key = {each.key: each for each in tasks}
        # Stored runs count too, so that an interruption does not change later positions.
        for key in by_key:
            self.positions.setdefault(key, len(self.positions))
        new = [key for key in by_key if key not in self.known]
        for key in new:
            self.waiting.append(replace(by_key[key], position=self.positions[key]))
        # Local worker processes wait for later tasks; a Dask scheduler gets each batch separately.
        stays = isinstance(self.engine, LocalProcesses)
        if new and self.records is None:
            self.records = self.engine.start(self.waiting, self.folder, {})
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
    """A combination of values of the scenario's axes, which is tuned separately."""

    tuning: Tuning
    point: Mapping[str, Any]
    variant: Scenario

    @property
    def table(self) -> TuningTable:
        return self.tuning.table

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the schemes; the first scheme is tuned."""
        return tuple(each.label for each in self.variant.table.schemes)

    @cached_property
    def rows(self) -> list[tuple[RowTable, Scenario]]:
        """The rows of the tuning file, each with the scenario in which it is simulated."""
        return [
            (row, load_scenario(self.variant, changes_of(row.changes))) for row in self.table.rows
        ]

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
        """Return one task per seed and row for given values.

        Without rows, it is one task per seed for one scheme, the tuned scheme by default.
        """
        table = self.table
        compiled = table.compiled if compiled is None else compiled
        chosen = dict(zip((each.path for each in table.parameters), values, strict=True))
        marked = {COMPILED: "yes" if compiled else "no"} if table.compiled else {}
        tuned = RowTable(name="", scheme=scheme or self.labels[0])
        return [
            (CompiledTask if compiled else kind)(
                scenario=scenario,
                point={**self.point, **chosen, **marked, **({ROW: row.name} if table.rows else {})},
                schemes=self.labels,
                scheme=row.scheme,
                seed=seed,
                position=0,
                measures=tuple(table.measured_in(row.name).values()),
                **options,
            )
            for row, variant in self.rows or [(tuned, self.variant)]
            for scenario in [self.tuning.with_values(variant, values)]
            for seed in seeds
        ]

    def check(self) -> None:
        """Raise `UserError` for every mistake that can be found before the first run."""
        table = self.table
        taken = {BEST, TIMERS, SCHEDULE, PROVED, *self.labels}
        for place, each in enumerate(table.start):
            if each.name in taken:
                rule = "must not be the name of another entry of the comparison"
                error = FieldError(f"start[{place}].name", each.name, rule)
                raise InputError(self.tuning.source, str(error))
        for place, row in enumerate(table.rows):
            if row.scheme not in self.labels:
                rule = unknown_key(row.scheme, self.labels, noun="label")
                error = FieldError(f"rows[{place}].scheme", row.scheme, rule)
                raise InputError(self.tuning.source, str(error))
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

    def figures(
        self, runs: _Runs, tasks: Sequence[TrialTask], names: Sequence[str] = ()
    ) -> pd.DataFrame:
        """Return the measures of runs by seed; raise `SimulationError` if one is missing."""
        import pandas as pd

        found: dict[int, dict[str, float]] = {}
        for record in runs.rows(tasks):
            named = {name: name for name in names}
            named = named or self.table.measured_in(str(record.axes.get(ROW, "")))
            found.setdefault(record.seed, {}).update(_figures(record, named))
        return pd.DataFrame(
            found.values(), index=[*found], columns=list(names or self.table.measures)
        )

    def found(self, runs: _Runs) -> Found:
        """Search for the best values, and compare them with other values and schemes."""
        table = self.table

        def means(candidates: Sequence[Steps]) -> list[Mapping[str, float]]:
            tasks = [
                self.tasks([each.value(steps[each.path]) for each in table.parameters], table.seeds)
                for steps in candidates
            ]
            runs.rows([*chain(*tasks)])  # one batch, so that they run in parallel
            figures = [self.figures(runs, each) for each in tasks]
            return [
                {name: math.fsum(each[name]) / len(each) for name in table.measures}
                for each in figures
            ]

        trials = search(table, means)
        best = best_of(trials).values(table)
        others = () if table.targets else self.labels[1:]
        of_values = {each.name: each.values for each in table.start} | {BEST: best}
        seeds = [*table.seeds, *table.judged]
        tasks = {name: self.tasks(values, seeds) for name, values in of_values.items()}
        tasks |= {label: self.tasks(best, seeds, scheme=label, compiled=False) for label in others}
        replays = self.tasks(best, table.judged or table.seeds, compiled=False)
        runs.rows([*chain(*tasks.values()), *replays])  # one batch, so that they run in parallel
        figures = {name: self.figures(runs, each) for name, each in tasks.items()}
        if table.clairvoyant is not None:
            in_order = [*of_values, *({AUTO_TUNER} & set(others))]
            figures |= self._clairvoyant(runs, figures, in_order, best)
        is_compared = table.compiled and table.judged
        sentences = (each for row in runs.rows(replays) for each in row.assumptions)
        return Found(
            table=table,
            point=self.point,
            trials=trials,
            figures=figures,
            replayed=self.figures(runs, replays if is_compared else []),
            assumptions=list(dict.fromkeys(sentences)),
        )

    def _clairvoyant(
        self,
        runs: _Runs,
        figures: Mapping[str, pd.DataFrame],
        in_order: Sequence[str],
        best: Sequence[float],
    ) -> dict[str, pd.DataFrame]:
        import pandas as pd

        seeds, changes = self.table.seeds, self.table.clairvoyant
        tasks = {
            label: self.tasks(best, seeds, scheme=label, kind=ClairvoyantTask, changes=changes)
            for label in (TIMERS, SCHEDULE)
        }
        runs.rows([*chain(*tasks.values())])
        bound_s = self.figures(runs, tasks[SCHEDULE], [BOUND])[BOUND]
        searched = {label: self.figures(runs, each) for label, each in tasks.items()}
        jct_s = {name: each[JCT] for name, each in {**figures, **searched}.items()}
        found = with_clairvoyant(pd.DataFrame(jct_s).loc[[*seeds]], bound_s, in_order)
        return {name: found[[name]].set_axis([JCT], axis=1) for name in (TIMERS, SCHEDULE, PROVED)}


def _figures(record: ReplayRecord, named: Mapping[str, str]) -> dict[str, float]:
    """Return measures of a run by name; `named` maps the names to the measures."""
    found = {name: (record.figures or {}).get(measure) for name, measure in named.items()}
    for name, value in found.items():
        if not isinstance(value, int | float):
            raise SimulationError(f"run {record.key}: the value of {named[name]} is not a number")
    return {name: float(value) for name, value in found.items() if value is not None}


def run_tuning(
    tuning: Tuning, folder: Path, *, engine: Engine, resume: bool, command: str | None
) -> tuple[StudyRecord, list[Found], list[ReplayRecord]]:
    """Run a tuning file into the store of a folder; return study, results and stored rows.

    With `resume`, an interrupted search makes the same choices again and reads stored rows instead
    of running them.

    Raises
    ------
    UserError
        If the file contains a mistake, the store cannot be written, or it belongs to other runs.
    SimulationError
        If a run ended in an error.
    """
    table = tuning.table
    for parameter in table.parameters:
        if parameter.path in tuning.scenario.table.axes:
            rule = "must not also be an axis of the scenario"
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
        runs=trials * len(table.seeds) * max(1, len(table.rows)) * len(points),
        settings={"schemes": [*labels, TIMERS, SCHEDULE], "command": command, "tuning": True}
        | ({"files": files} if files else {}),
    )
    with open_store(study, folder, resume=resume) as store:
        known = {each.key: each for each in store.runs() if each.status != ERROR}
        say(f"{study.name}: {counted(len(known), 'run')} already stored")
        showing = progress(study.name, max(1, study.runs - len(known)))
        with terminating_like_ctrl_c(), showing as advance:
            runs = _Runs(store=store, engine=engine, folder=folder, advance=advance, known=known)
            try:
                found = [each.found(runs) for each in points]
                for _ in range(len(runs.known), study.runs):
                    advance()  # trials that repeat an earlier one need no run
            finally:
                if runs.records is not None:
                    runs.records.close()
        return study, found, list(runs.known.values())
