"""Tuning files: TOML files that say which keys of a scenario to choose, and for which measure.

The bundled files are in ``experiments/tunings``; some have the frozen result of their search.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lyra_opt.core.documents import parse_toml, read_text, unknown_key
from lyra_opt.core.errors import FieldError, InputError, UserError, in_file
from lyra_opt.core.fields import Table, key, parsed, with_change
from lyra_opt.core.rules import (
    Anything,
    Flag,
    Integer,
    Line,
    ListOf,
    Name,
    Named,
    Number,
    Seeds,
    Text,
    located,
)
from lyra_opt.experiments.simulation.measuring.measures import MEASURES
from lyra_opt.experiments.simulation.scenario.documents import plain, toml_text
from lyra_opt.experiments.simulation.scenario.loading import Change, Scenario, load_scenario

TUNING_FORMAT, TUNING_VERSION = "lyra-opt/tuning", 1
TUNINGS = Path(__file__).parent.parent / "tunings"
SUFFIX = ".toml"
LARGEST_FILE_BYTES, LARGEST_RESULT_BYTES = 2**20, 2**24
MOST_TRIALS = 100_000
MOST_SEEDS = 1000
PERCENTILE = re.compile(r"(?P<of>queue|jct)_p(?P<rank>\d{1,2})_s")


@dataclass(frozen=True, kw_only=True)
class TargetTable:
    """A published value that a measure should come close to."""

    row: str = key(Line(), "the entry of rows that is measured", "", shown="the tuned scheme")
    measure: str = key(Line(), "measure of a simulation, such as queue_mean_s or jct_p75_s")
    value: float = key(Number(above=True), "the published value")
    tolerance: float = key(
        Number(above=True), "largest allowed relative distance from the value", 0.1
    )

    def __post_init__(self) -> None:
        require_measure("measure", self.measure)

    @property
    def name(self) -> str:
        """The measure, after the name of the row if there is one."""
        return f"{self.row}: {self.measure}" if self.row else self.measure


@dataclass(frozen=True, kw_only=True)
class RowTable:
    """A row of a published table: one scheme, in the scenario with further changes."""

    name: str = key(Line(), "name of the row")
    scheme: str = key(Line(), "label of a scheme")
    changes: Mapping[str, Any] = key(Named(Anything()), "keys of the scenario to set", {})


@dataclass(frozen=True, kw_only=True)
class ParameterTable:
    """An integer key of the scenario whose value the search chooses."""

    path: str = key(
        Line(),
        "key of the scenario, such as jobs.parameters.days, or schemes.LABEL.PARAMETER; a number "
        "in the path is an index of a list",
        named="key",
    )
    least: int = key(Integer(), "smallest value of the parameter")
    most: int = key(Integer(), "largest value of the parameter")
    or_inf: bool = key(Flag(), "whether inf is also allowed", False)

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise FieldError("least", self.least, f"must be at most the largest value, {self.most}")

    @property
    def largest_step(self) -> int:
        """The largest integer of the search: `most`, or `most` + 1 if infinity is allowed."""
        return self.most + self.or_inf

    def value(self, step: int) -> float:
        """Return the parameter value that an integer chosen by the search represents."""
        return math.inf if step > self.most else step

    def step(self, value: float) -> int:
        """Return the integer for a parameter value; raise `FieldError` if the value is invalid."""
        if value == math.inf and self.or_inf:
            return self.largest_step
        if value not in range(self.least, self.most + 1):
            rule = f"must be a whole number from {self.least} to {self.most}"
            raise FieldError(self.path, value, rule + " or inf" * self.or_inf)
        return int(value)


@dataclass(frozen=True, kw_only=True)
class StartTable:
    """Parameter values that are tried first and appear in the comparison."""

    name: str = key(Line(), "name of these values in the comparison")
    values: tuple[float, ...] = key(
        ListOf(Anything()), "one value for each parameter, in the order of parameters"
    )


@dataclass(frozen=True, kw_only=True)
class TuningTable:
    """The keys of a tuning file."""

    format: str = key(Text((TUNING_FORMAT,)), "name of the file format")
    version: int = key(Integer(TUNING_VERSION, TUNING_VERSION), "version of the file format")
    name: str = key(Name(), "name of the tuning")
    description: str = key(Text(), "purpose of the tuning", "")
    scenario: str = key(
        Line(), "name of a scenario or a TOML file; each point of its axes is tuned separately"
    )
    changes: Mapping[str, Any] = key(Named(Anything()), "other keys of the scenario to set", {})
    schemes: tuple[Any, ...] = key(
        ListOf(Anything()),
        "schemes, written as in scenarios; the first is tuned, the others are compared with it",
        (),
        shown="those of the scenario",
    )
    seeds: tuple[int, ...] = key(
        Seeds(MOST_SEEDS), "seeds of the workloads on which every trial runs"
    )
    judged: tuple[int, ...] = key(
        ListOf(Integer(), distinct=True),
        "seeds of further workloads, on which only the compared entries run",
        (),
    )
    parameters: tuple[ParameterTable, ...] = key(
        ListOf(Table(ParameterTable)), "keys of the scenario whose values are chosen"
    )
    measure: str | None = key(
        Line(), "measure whose mean over the seeds is minimised", None, shown="targets"
    )
    targets: tuple[TargetTable, ...] = key(
        ListOf(Table(TargetTable)),
        "published values to come close to; cannot be combined with measure",
        (),
    )
    rows: tuple[RowTable, ...] = key(
        ListOf(Table(RowTable), unique="name"),
        "rows of a published table, all simulated by each trial; then each target names a row",
        (),
        shown="the tuned scheme alone",
    )
    largest_miss: float | None = key(
        Number(above=True),
        "the mean miss of the targets is minimised, and each miss counts at most this number of "
        "tolerances",
        None,
        shown="no limit; the worst miss is added to the mean",
    )
    start: tuple[StartTable, ...] = key(
        ListOf(Table(StartTable), unique="name"), "values that are tried first", ()
    )
    trials: int = key(
        Integer(1, MOST_TRIALS), "number of trials that Optuna chooses, including those of start"
    )
    random: int = key(
        Integer(1, MOST_TRIALS),
        "number of trials after start that are drawn uniformly at random",
        12,
    )
    refinements: int = key(
        Integer(0, MOST_TRIALS), "number of final trials, each a small change of the best so far", 0
    )
    batch: int = key(
        Integer(1, MOST_TRIALS),
        "number of later trials that are chosen together, so that they can run in parallel",
        1,
    )
    seed: int = key(Integer(0), "seed of the search", 0)
    compiled: bool = key(
        Flag(),
        "whether trials run on a fast compiled scheduler that ignores servers; only for scheme fifo"
        " and generated jobs. The best values are then also simulated on the judged seeds",
        False,
    )
    clairvoyant: int | None = key(
        Integer(0, MOST_TRIALS),
        "number of changes in a search for a schedule that knows all jobs in advance; only for "
        "scenarios with a network, and with measure jct_mean_s",
        None,
        shown="no such search",
    )

    def __post_init__(self) -> None:
        if (self.measure is None) is not bool(self.targets):
            raise FieldError(
                "measure",
                self.measure,
                "cannot be combined with targets; give exactly one of the two",
            )
        if self.measure is not None:
            require_measure("measure", self.measure)
        rows = [each.name for each in self.rows] or [""]
        names = [each.name for each in self.targets]
        for place, target in enumerate(self.targets):
            if target.row not in rows:
                rule = unknown_key(target.row, rows) if self.rows else "requires rows"
                raise FieldError(f"targets[{place}].row", target.row, rule)
            if target.name in names[:place]:
                raise FieldError(f"targets[{place}].measure", target.measure, "must be unique")
        if self.rows and (self.compiled or not self.targets):
            raise FieldError("rows", len(self.rows), "requires targets, and excludes compiled")
        paths = [each.path for each in self.parameters]
        if len(set(paths)) < len(paths):
            raise FieldError("parameters", paths, "must not contain duplicates")
        both = sorted(set(self.seeds) & set(self.judged))
        if both:
            raise FieldError(
                "judged", list(self.judged), f"must not contain {both[0]}, which is in seeds"
            )
        if self.trials < len(self.start):
            raise FieldError(
                "trials", self.trials, f"must be at least {len(self.start)}, the entries of start"
            )
        if self.clairvoyant is not None and (self.measure != "jct_mean_s" or self.compiled):
            rule = "requires measure jct_mean_s, and cannot be combined with compiled"
            raise FieldError("clairvoyant", self.clairvoyant, rule)
        for place, each in enumerate(self.start):
            if len(each.values) != len(self.parameters):
                rule = f"must have {len(self.parameters)} values, one for each parameter"
                raise FieldError(f"start[{place}].values", list(each.values), rule)
            for parameter, value in zip(self.parameters, each.values, strict=True):
                with located(f"start[{place}]"):
                    parameter.step(value)

    @property
    def measures(self) -> list[str]:
        """The names of the targets, or the measure, which the search reads for each seed."""
        found = [each.name for each in self.targets]
        return found if self.measure is None else [self.measure]

    def measured_in(self, row: str) -> dict[str, str]:
        """Return the measures of a row's runs, by the names of `measures`."""
        if self.measure is not None:
            return {self.measure: self.measure}
        return {each.name: each.measure for each in self.targets if each.row == row}


def require_measure(field: str, name: str) -> None:
    """Raise `FieldError` if no simulation reports a measure of this name."""
    known = [each.key for each in MEASURES]
    if name not in known and PERCENTILE.fullmatch(name) is None:
        raise FieldError(
            field, name, f"{unknown_key(name, known)}, or a percentile: queue_pNN_s, jct_pNN_s"
        )


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """A tuning file that was read and checked."""

    source: str
    text: str
    table: TuningTable

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario of the tuning file, with the file's changes applied."""
        schemes = {"schemes": self.table.schemes} if self.table.schemes else {}
        return load_scenario(self.table.scenario, changes_of({**self.table.changes, **schemes}))

    def with_values(self, variant: Scenario, values: Sequence[float]) -> Scenario:
        """Return a variant of the scenario in which each parameter has the given value.

        Raises
        ------
        InputError
            If the scenario has no such key, or a value breaks the key's rule.
        """
        document = plain(variant.document)
        labels = [each.label for each in variant.table.schemes]
        document["schemes"] = entries = dict(zip(labels, document["schemes"], strict=True))
        for place, (parameter, value) in enumerate(zip(self.table.parameters, values, strict=True)):
            path = parameter.path.split(".")
            try:
                if path[0] == "schemes" and isinstance(entries[path[1]], str):
                    entries[path[1]] = {"name": entries[path[1]], "label": path[1]}
                _set(document, path, value)
            except (ValueError, LookupError, TypeError, AttributeError):
                rule = f"must be a key of the scenario or of its schemes {', '.join(labels)}"
                error = FieldError(f"parameters[{place}].key", parameter.path, rule)
                raise InputError(self.source, str(error)) from None
        document["schemes"] = list(entries.values())
        given = variant.document
        changed = {name: each for name, each in document.items() if each != given.get(name)}
        return load_scenario(variant, changes_of(changed))


def changes_of(keys: Mapping[str, Any]) -> list[Change]:
    """Return the changes that set keys of a scenario."""
    return [Change(path, plain(value)) for path, value in keys.items()]


def _set(held: Any, path: Sequence[str], value: float) -> None:
    *tables, last = path
    for name in tables:
        held = held[int(name)] if isinstance(held, list) else held.setdefault(name, {})
    held[int(last) if isinstance(held, list) else last] = value


def tuning_names() -> list[str]:
    """Return the names of the bundled tuning files."""
    return sorted(path.stem for path in TUNINGS.glob(f"*{SUFFIX}"))


def frozen_result(name: str) -> dict[str, Any]:
    """Return the stored result of a bundled tuning, as a JSON object."""
    text = read_text(str(TUNINGS / f"{name}.json"), LARGEST_RESULT_BYTES)
    found: dict[str, Any] = json.loads(text)
    return found


def load_tuning(given: str | Mapping[str, Any], changes: Sequence[Change] = ()) -> Tuning:
    """Read and check a tuning file, given by its name, its path or its content.

    Raises
    ------
    UserError
        If the file does not exist or breaks a rule; names file, field and rule.
    """
    if isinstance(given, str):
        source = _path_of(given)
        text = read_text(source, LARGEST_FILE_BYTES)
        document = parse_toml(text, source, "a tuning file")
    else:
        source, document = "the tuning", plain(given)
        text = toml_text(document)
    with in_file(source):
        for change in changes:
            document = with_change(document, change.path, change.value)
            text = f"# run with {change.path} = {change.value}\n{text}"
        table = parsed(TuningTable, document)
    return Tuning(source=source, text=text, table=table)


def _path_of(name_or_path: str) -> str:
    """Return the path of a tuning file; raise `UserError` if no bundled tuning has the name."""
    if name_or_path.endswith(SUFFIX) or "/" in name_or_path:
        return name_or_path
    known = tuning_names()
    if name_or_path not in known:
        rule = unknown_key(name_or_path, known, noun="tuning")
        raise UserError(
            f"tuning {name_or_path!r}: {rule} (the name of a file must end in {SUFFIX})"
        )
    return str(TUNINGS / f"{name_or_path}{SUFFIX}")
