"""Tuning files: which keys of a scenario to choose, for which measure, as TOML.

``experiments/tunings`` holds the named ones, some with the frozen result of their search.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import parse_toml, read_text, unknown_key
from lyra_opt.core.errors import FieldError, InputError, UserError
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
)
from lyra_opt.experiments.simulation.measuring.measures import MEASURES
from lyra_opt.experiments.simulation.scenario.documents import plain
from lyra_opt.experiments.simulation.scenario.loading import Change, Scenario, load_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TUNING_FORMAT, TUNING_VERSION = "lyra-opt/tuning", 1
TUNINGS = Path(__file__).parent.parent / "tunings"
SUFFIX = ".toml"
LARGEST_FILE_BYTES, LARGEST_RESULT_BYTES = 2**20, 2**24
MOST_TRIALS = 100_000
MOST_SEEDS = 1000
PERCENTILE = re.compile(r"(?P<of>queue|jct)_p(?P<rank>\d{1,2})_s")


@dataclass(frozen=True, kw_only=True)
class TargetTable:
    """A published figure to come near to."""

    measure: str = key(Line(), "the figure of a run, such as queue_mean_s or jct_p75_s")
    value: float = key(Number(above=True), "the published value")
    tolerance: float = key(Number(above=True), "the largest miss, relative to the value", 0.1)

    def __post_init__(self) -> None:
        require_measure("measure", self.measure)


@dataclass(frozen=True, kw_only=True)
class ParameterTable:
    """A whole number to choose."""

    path: str = key(
        Line(),
        "the scenario's key, such as jobs.parameters.days, or schemes.LABEL.PARAMETER; a number "
        "in the path is an index of a list",
        named="key",
    )
    least: int = key(Integer(), "least value")
    most: int = key(Integer(), "largest value")
    or_inf: bool = key(Flag(), "whether inf is a choice too", False)

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise FieldError("least", self.least, f"must be at most {self.most}, which is most")

    @property
    def largest_step(self) -> int:
        """The largest step of the search; the step above `most` stands for inf."""
        return self.most + self.or_inf

    def value(self, step: int) -> float:
        """Return the value of a step."""
        return math.inf if step > self.most else step

    def step(self, value: float) -> int:
        """Return the step of a value; `FieldError` if it is not a choice."""
        if value == math.inf and self.or_inf:
            return self.largest_step
        if value not in range(self.least, self.most + 1):
            rule = f"must be a whole number from {self.least} to {self.most}"
            raise FieldError(self.path, value, rule + " or inf" * self.or_inf)
        return int(value)


@dataclass(frozen=True, kw_only=True)
class StartTable:
    """Values to try first; their runs stand in the comparison."""

    name: str = key(Line(), "what the comparison calls them")
    values: tuple[float, ...] = key(ListOf(Anything()), "a value for each parameter, in order")


@dataclass(frozen=True, kw_only=True)
class TuningTable:
    """The whole file."""

    format: str = key(Text((TUNING_FORMAT,)), "of the file")
    version: int = key(Integer(TUNING_VERSION, TUNING_VERSION), "of the format")
    name: str = key(Name(), "the name of the search")
    description: str = key(Text(), "what it is for", "")
    scenario: str = key(
        Line(), "the scenario: a name, or a TOML file; each point of its axes is tuned"
    )
    changes: Mapping[str, Any] = key(Named(Anything()), "other keys of the scenario to change", {})
    schemes: tuple[Any, ...] = key(
        ListOf(Anything()),
        "schemes as in scenarios: the first is tuned, the others are compared with the best",
        (),
        shown="those of the scenario",
    )
    seeds: tuple[int, ...] = key(Seeds(MOST_SEEDS), "draws of jobs on which all trials run")
    judged: tuple[int, ...] = key(
        ListOf(Integer(), distinct=True), "other draws, on which the best is run too", ()
    )
    parameters: tuple[ParameterTable, ...] = key(ListOf(Table(ParameterTable)), "what to choose")
    measure: str | None = key(
        Line(), "the figure whose mean over the seeds should be least", None, shown="targets"
    )
    targets: tuple[TargetTable, ...] = key(
        ListOf(Table(TargetTable)), "published figures to come near to, in place of measure", ()
    )
    start: tuple[StartTable, ...] = key(ListOf(Table(StartTable)), "values to try first", ())
    trials: int = key(
        Integer(1, MOST_TRIALS), "trials that Optuna chooses, those of start included"
    )
    random: int = key(
        Integer(1, MOST_TRIALS), "trials after start that are drawn evenly, to learn from", 12
    )
    refinements: int = key(
        Integer(0, MOST_TRIALS), "trials after these: small changes of the best so far", 0
    )
    batch: int = key(
        Integer(1, MOST_TRIALS), "later trials that are chosen at once, to run side by side", 1
    )
    seed: int = key(Integer(0), "seed of the search", 0)
    compiled: bool = key(
        Flag(),
        "whether trials run on a compiled schedule of counted GPUs: for scheme fifo and generated "
        "jobs, at a fraction of the time. The simulated cluster repeats the judged draws",
        False,
    )
    clairvoyant: int | None = key(
        Integer(0, MOST_TRIALS),
        "changes of order and timers in a search for the schedule of somebody who knows all jobs, "
        "for gangs in a network and measure jct_mean_s",
        None,
        shown="no such search",
    )

    def __post_init__(self) -> None:
        if (self.measure is None) is not bool(self.targets):
            raise FieldError("measure", self.measure, "cannot be combined with targets; give one")
        if self.measure is not None:
            require_measure("measure", self.measure)
        if not self.parameters:
            raise FieldError("parameters", [], "must have at least one entry")
        both = sorted(set(self.seeds) & set(self.judged))
        if both:
            raise FieldError("judged", list(self.judged), f"must not hold {both[0]}, one of seeds")
        for name, values in (
            ("targets", self.measures),
            ("parameters", [each.path for each in self.parameters]),
            ("start", [each.name for each in self.start]),
        ):
            if len(set(values)) < len(values):
                raise FieldError(name, values, "must not have an entry twice")
        if self.trials < len(self.start):
            raise FieldError(
                "trials", self.trials, f"must be at least {len(self.start)}, for start"
            )
        if self.clairvoyant is not None and (self.measure != "jct_mean_s" or self.compiled):
            rule = "must go with measure jct_mean_s, and without compiled"
            raise FieldError("clairvoyant", self.clairvoyant, rule)
        for place, each in enumerate(self.start):
            if len(each.values) != len(self.parameters):
                rule = f"must have {len(self.parameters)} values, one for each parameter"
                raise FieldError(f"start[{place}].values", list(each.values), rule)
            for parameter, value in zip(self.parameters, each.values, strict=True):
                try:
                    parameter.step(value)
                except FieldError as error:
                    raise error.inside(f"start[{place}]") from None

    @property
    def measures(self) -> list[str]:
        """The figures of a run that the search reads."""
        found = [each.measure for each in self.targets]
        return found if self.measure is None else [self.measure]


def require_measure(field: str, name: str) -> None:
    """Raise `FieldError` if a run has no such figure."""
    known = [each.key for each in MEASURES]
    if name not in known and PERCENTILE.fullmatch(name) is None:
        raise FieldError(field, name, f"{unknown_key(name, known)}, or queue_pNN_s, jct_pNN_s")


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """A tuning file that has been read."""

    source: str
    text: str
    table: TuningTable

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario with the changes of the file."""
        changes = [Change(path, plain(value)) for path, value in self.table.changes.items()]
        if self.table.schemes:
            changes.append(Change("schemes", plain(self.table.schemes)))
        return load_scenario(self.table.scenario, changes)

    def with_values(self, variant: Scenario, values: Sequence[float]) -> Scenario:
        """Return a variant of the scenario with a value for each parameter.

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
        return load_scenario(variant, [Change(name, each) for name, each in changed.items()])


def _set(held: Any, path: Sequence[str], value: float) -> None:
    *tables, last = path
    for name in tables:
        held = held[int(name)] if isinstance(held, list) else held.setdefault(name, {})
    held[int(last) if isinstance(held, list) else last] = value


def tuning_names() -> list[str]:
    """Return the names of the bundled tuning files."""
    return sorted(path.stem for path in TUNINGS.glob(f"*{SUFFIX}"))


def frozen_result(name: str) -> dict[str, Any]:
    """Return the recorded result of a bundled tuning file."""
    text = read_text(str(TUNINGS / f"{name}.json"), LARGEST_RESULT_BYTES)
    found: dict[str, Any] = json.loads(text)
    return found


def load_tuning(name_or_path: str, changes: Sequence[Change] = ()) -> Tuning:
    """Read and check a tuning file.

    Raises
    ------
    UserError
        If the file is not there or breaks a rule; names file, field and rule.
    """
    path = Path(name_or_path)
    if not (name_or_path.endswith(SUFFIX) or "/" in name_or_path):
        known = tuning_names()
        if name_or_path not in known:
            rule = unknown_key(name_or_path, known, noun="tuning")
            raise UserError(f"tuning {name_or_path!r}: {rule} (a file ends in {SUFFIX})")
        path = TUNINGS / f"{name_or_path}{SUFFIX}"
    text = read_text(str(path), LARGEST_FILE_BYTES)
    document = parse_toml(text, str(path), "a tuning")
    try:
        for change in changes:
            document = with_change(document, change.path, change.value)
            text = f"# run with {change.path} = {change.value}\n{text}"
        table = parsed(TuningTable, document)
    except FieldError as error:
        raise InputError(str(path), str(error)) from None
    return Tuning(source=str(path), text=text, table=table)
