"""The rows of a store of results: what every run has, and what each kind of run has beside.

A kind of run is one frozen dataclass with a class variable `kind`, whose fields are its columns,
and an entry of `KINDS`. A field that SQLite cannot hold says in its metadata how it is stored.

SQLite stores records as rows of plain values, and workers on other machines return such rows. A row
comes from a file or a machine that anybody may have changed. So every value is compared with the
type of its column before a record is made of it.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from lyra_opt.core.errors import FieldError
from lyra_opt.core.problem import find_problem, problems
from lyra_opt.core.result import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from dataclasses import Field

    import pandas as pd

    from lyra_opt.core.result import Number

MEASURED_PACKAGES = ("lyra-opt", "numpy", "scipy", "numba", "pulp", "highspy", "ortools")


@dataclass(frozen=True, slots=True)
class Environment:
    """Versions and machine of a run.

    Parameters
    ----------
    versions
        Version by package name, "python" among them; None for a package that is not installed.
    cpu
        Model name of the processor.
    cores
        Logical processors that the machine has.
    platform
        Operating system and C library, as Python names them.
    """

    versions: dict[str, str | None]
    cpu: str
    cores: int
    platform: str


@cache
def current_environment() -> Environment:
    """Return the environment of this process."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    versions |= {package: _installed_version(package) for package in MEASURED_PACKAGES}
    return Environment(versions, _cpu_model(), os.cpu_count() or 1, platform.platform())


def _installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return platform.processor() or platform.machine() or "unknown"


AxisValue = str | int | float

JSON: Final = MappingProxyType({"stored": "json"})
"""A list or an object, stored as JSON text."""
NUMBER: Final = MappingProxyType({"stored": "number"})
"""A number of any size; an integer beyond 64 bits is stored as text."""
FLAG: Final = MappingProxyType({"stored": "flag"})
"""True or false, stored as 1 or 0."""
MOMENT: Final = MappingProxyType({"stored": "moment"})
"""A time, UTC, stored as ISO 8601 text."""
BESIDE: Final = MappingProxyType({"stored": "beside"})
"""Files beside the row."""

ERROR = "error"
"""The status of a run that failed, whatever its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRecord:
    """What a store belongs to: a study, or whatever else is a list of runs.

    Parameters
    ----------
    name, description
        For people.
    kind
        Of its runs; a key of `KINDS`.
    text
        The file that says what is run, word for word, below a comment for each key that was
        changed; or how else it was asked for.
    meaning_hash
        SHA-256 of what is run; comments and layout do not count.
    runs
        How many runs there are when it is complete.
    settings
        What holds for all runs, by name, as far as JSON can say it.
    """

    name: str
    kind: str
    description: str = ""
    text: str
    meaning_hash: str
    runs: int
    settings: Mapping[str, Any] = field(default_factory=dict, metadata=JSON)

    def check(self) -> None:
        """Raise `FieldError` if a setting that pages read has another type."""
        for name in ("headline", "schemes"):
            given = self.settings.get(name, [])
            if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
                raise FieldError(f"settings.{name}", given, "must be a list of names")
        if not isinstance(self.settings.get("left_out", {}), dict):
            raise FieldError("settings.left_out", self.settings["left_out"], "must be an object")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What a row says of a run of any kind; None stands for NULL.

    Parameters
    ----------
    study
        Name of what the run is a part of.
    position
        Its place there, from 0: tables and plots keep the order of the study.
    key
        What is run, in words that identify the row.
    axes
        What the study varies, with the values of this run.
    seed
        Of what is drawn for the run; runs of one seed share their draws.
    status
        How the run ended; `ERROR` if it failed.
    message
        Why the run failed or was skipped.
    wall_time_s, cpu_time_s
        Seconds of what is measured, and of the processors; the docstring of the kind says of what.
    peak_memory_mib
        Peak resident memory of the process during the run, loaded libraries included.
    versions, cpu, cores, platform
        As in `lyra_opt.experiments.records.Environment`.
    started_at
        When the run began, UTC, ISO 8601.
    tables
        What is kept beside the row, by name, as ``runs/KEY/NAME.csv.gz``; see
        `lyra_opt.experiments.store.table_path`. No column: rows that are read have none.
    documents
        Texts that are kept elsewhere, by the absolute path of the file. No column either.
    """

    kind: ClassVar[str]
    statuses: ClassVar[type[StrEnum]]
    compared_by: ClassVar[tuple[str, ...]]
    """Columns that say, with the axes and the seed, which run of another store is its pair."""
    drawn_by: ClassVar[tuple[str, ...]]
    """Columns that runs have in common which share their draws."""
    measures: ClassVar[tuple[str, ...]] = ("wall_time_s", "cpu_time_s", "peak_memory_mib")
    """Columns that are measured, beside figures and counters."""

    def check(self) -> None:
        """Raise `FieldError` if a column breaks a rule of its kind, beyond its type."""

    study: str
    position: int
    key: str
    axes: Mapping[str, AxisValue] = field(default_factory=dict, metadata=JSON)
    seed: int
    status: str
    message: str | None = None
    wall_time_s: float | None = None
    cpu_time_s: float | None = None
    peak_memory_mib: float | None = None
    versions: Mapping[str, str | None] = field(metadata=JSON)
    cpu: str
    cores: int
    platform: str
    started_at: str = field(metadata=MOMENT)
    tables: Mapping[str, pd.DataFrame] = field(
        default_factory=dict, metadata=BESIDE, repr=False, compare=False
    )
    documents: Mapping[str, str] = field(
        default_factory=dict, metadata=BESIDE, repr=False, compare=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverRecord(RunRecord):
    """One run of one solver on one instance.

    ``wall_time_s`` is that of the solver alone, after an untimed call that loads what it needs;
    ``cpu_time_s`` and ``peak_memory_mib`` are those of the process that runs it, with the processes
    that the solver starts. ``seed`` is that of the instance.

    Parameters
    ----------
    problem
        Its name.
    cell
        What instance the study asks for, in words, such as ``bf-trace servers=20
        reclaim_percent=10 seed=0``.
    configuration
        The solver and, where the study runs it with several time limits, its limit. With `cell`
        it identifies the row.
    family_group
        What the study calls the families that it sums up with this one; empty without a name.
    family, family_parameters
        What the instance was generated from, or the file that it was read from.
    trace_name, trace_sha256
        The job trace that the instance was cut from, where there is one.
    size
        Of the instance, as its problem counts it; None if the generator failed.
    instance_name, content_sha256, variant
        The instance as generated; None if the generator failed.
    known_optimum
        Its optimum, where the family knows it by construction; no proof, but a check.
    solver, solver_seed
        Name and seed of the solver. The seed reproduces the run with ``lyra-opt solve --seed``.
    solver_source, solver_sha256
        Where a solver is from that is no registered one, ``my_file.py:NAME``, and the SHA-256 of
        the file; None for others.
    time_limit_s
        Seconds that the solver may use, None without a limit.
    memory_limit_mib
        What the solver may take beyond what it begins with, None without a limit.
    certify
        Whether the problem's own bound was computed beside the solver's.
    reference
        Whether the study names the solver as one that is there to prove the optimum.
    status
        How it ended.
    stopped_by, objective, dual_bound
        As in `lyra_opt.core.solving.Answer`.
    certify_time_s
        Seconds of the problem's own bound.
    counters
        Effort of the solver by name.
    solution
        The solution as a document that ``lyra-opt verify`` reads.
    """

    kind = "solver"
    statuses = Status
    compared_by = ("family_group", "family", "cell", "configuration")
    drawn_by = ("cell",)
    measures = ("objective", "dual_bound", *RunRecord.measures, "certify_time_s")

    problem: str
    cell: str
    configuration: str
    family_group: str
    family: str
    family_parameters: Mapping[str, str | int] = field(metadata=JSON)
    trace_name: str | None
    trace_sha256: str | None
    size: int | None = None
    instance_name: str | None = None
    content_sha256: str | None = None
    variant: str | None = None
    known_optimum: Number | None = field(default=None, metadata=NUMBER)
    solver: str
    solver_source: str | None = None
    solver_sha256: str | None = None
    solver_seed: int
    time_limit_s: float | None
    memory_limit_mib: float | None = None
    certify: bool = field(metadata=FLAG)
    reference: bool = field(metadata=FLAG)
    status: Status
    stopped_by: str | None = None
    objective: Number | None = field(default=None, metadata=NUMBER)
    dual_bound: Number | None = field(default=None, metadata=NUMBER)
    certify_time_s: float | None = None
    counters: Mapping[str, int] | None = field(default=None, metadata=JSON)
    solution: Mapping[str, Any] | None = field(default=None, metadata=JSON)

    def check(self) -> None:
        """Raise `FieldError` if the problem, its variant or its size is not a known one."""
        if self.problem not in problems():
            rule = f"must be one of {', '.join(problems())}"
            raise FieldError("problem", self.problem, rule)
        problem = find_problem(self.problem)
        if self.variant is not None and self.variant not in list(problem.variants):
            rule = f"must be one of {', '.join(problem.variants)}"
            raise FieldError("variant", self.variant, rule)
        asked = self.family_parameters.get(problem.size_name, 0)
        if not isinstance(asked, int):
            name = f"family_parameters.{problem.size_name}"
            raise FieldError(name, asked, "must be an integer")


class ReplayStatus(StrEnum):
    """How a simulation ended."""

    FINISHED = "finished"
    """Every job is complete, and GPU-seconds, work and time are conserved."""
    ERROR = ERROR
    """It came to no result, or to one that cannot be right; the message says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRecord(RunRecord):
    """One simulation: a workload on a cluster under a scheme.

    ``wall_time_s`` and ``cpu_time_s`` are those of the simulation alone. ``tables`` has ``jobs``,
    a row a job in the order of the workload, and ``series``, a row a moment.

    Parameters
    ----------
    status
        How it ended.
    scenario, scheme, workload, cluster
        Names of what was simulated.
    setting
        What was simulated, as far as pages name or draw it; see
        `lyra_opt.experiments.simulation.running.tasks.setting_of`. Empty if it failed.
    figures
        What was measured, by name; None if it failed.
    assumptions
        What was assumed, a sentence each.
    """

    kind = "replay"
    statuses = ReplayStatus
    compared_by = ("scenario", "workload", "cluster", "scheme")
    drawn_by = ("workload", "seed")

    status: ReplayStatus
    scenario: str
    scheme: str
    workload: str
    cluster: str
    setting: Mapping[str, Any] = field(default_factory=dict, metadata=JSON)
    figures: Mapping[str, Any] | None = field(default=None, metadata=JSON)
    assumptions: Sequence[str] = field(default=(), metadata=JSON)

    @property
    def point(self) -> Mapping[str, AxisValue]:
        """What it has of each axis of the scenario; schemes are none of them."""
        return {name: value for name, value in self.axes.items() if name != "scheme"}


KINDS: Mapping[str, type[RunRecord]] = {
    record.kind: record for record in (SolverRecord, ReplayRecord)
}
"""The record of each kind of run."""


LARGEST_STORED_INTEGER = 2**63 - 1
LARGEST_PARAMETER = 2**53
"""The largest integer parameter of a family: pictures draw parameters as floats."""
RecordT = TypeVar("RecordT", StudyRecord, RunRecord)

_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "text"),
    "int": ((int,), "an integer"),
    "bool": ((int,), "0 or 1"),
    "float": ((int, float), "a number"),
    "Number": ((int, float), "a number"),
    "AxisValue": ((str, int, float), "text or a number"),
    "str | int": ((str, int), "text or an integer"),
    "str | None": ((str, type(None)), "text or null"),
    "Mapping": ((dict,), "a JSON object"),
    "Sequence": ((list,), "a JSON list"),
}
"""What a value has to be, by the annotation of its column, or of the entries of its column."""

_MOMENT = re.compile(r"(19|20)\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?\+00:00")
_INTEGER = re.compile(r"-?[0-9]{1,300}")  # more digits do not fit a float


def columns_of(record: type[StudyRecord | RunRecord]) -> list[Field[Any]]:
    """Return the fields of a record that are columns of its table."""
    return [column for column in fields(record) if column.metadata != BESIDE]


def encoded(record: StudyRecord | RunRecord) -> dict[str, Any]:
    """Return the columns of a record, by name, as texts, integers, floats and None."""
    row = {}
    for column in columns_of(type(record)):
        value = getattr(record, column.name)
        if value is None:
            pass
        elif column.metadata == JSON:
            value = json.dumps(value, separators=(",", ":"))
        elif column.metadata == NUMBER:
            value = _storable(value)
        elif isinstance(value, str):  # a message may hold anything that a solver's error holds
            value = value.encode("utf-8", "backslashreplace").decode()
        row[column.name] = value
    return row


def decoded(kind: type[RecordT], row: Mapping[str, Any]) -> RecordT:
    """Return the record of a row.

    Raises
    ------
    FieldError
        If a column is missing, is unknown or breaks its rule; names it.
    """
    known = columns_of(kind)
    for name in row.keys() ^ {column.name for column in known}:
        raise FieldError(name, row.get(name), "missing, or not a column of this table")
    values = {column.name: _decoded(column, row[column.name]) for column in known}
    statuses = getattr(kind, "statuses", None)
    if statuses is not None:
        if values["status"] not in list(statuses):
            raise FieldError("status", values["status"], f"must be one of {', '.join(statuses)}")
        values["status"] = statuses(values["status"])
    record = kind(**values)
    record.check()
    return record


def _decoded(column: Field[Any], value: Any) -> Any:
    annotation = str(column.type)
    if value is None and annotation.endswith("| None"):
        return None
    if column.metadata == JSON:
        return _decoded_json(column.name, annotation, value)
    if column.metadata == NUMBER and isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    name = "str" if column.name == "status" else annotation.removesuffix(" | None")
    _require(column.name, value, name)
    if isinstance(value, float) and not math.isfinite(value) and column.metadata != NUMBER:
        raise FieldError(column.name, value, "must be finite")
    if column.metadata == MOMENT:
        _require_moment(column.name, value)
    if column.metadata == FLAG and value not in (0, 1):
        raise FieldError(column.name, value, "must be 0 or 1")
    return bool(value) if column.metadata == FLAG else value


def _decoded_json(name: str, annotation: str, text: Any) -> Any:
    _require(name, text, "str")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise FieldError(name, text, "must be JSON") from None
    if value is None and annotation.endswith("| None"):
        return None
    kind, _, rest = annotation.removesuffix(" | None").partition("[")
    _require(name, value, kind)
    entry_type = rest.removesuffix("]").removeprefix("str, ")
    if entry_type in _TYPES:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in entries:
            _require(f"{name}.{key}", entry, entry_type)
    return value


def _require(name: str, value: Any, annotation: str) -> None:
    types, words = _TYPES[annotation]
    if not isinstance(value, types):
        shown = f"{len(value)} bytes" if isinstance(value, bytes) else value
        raise FieldError(name, shown, f"must be {words}")
    if annotation == "str | int" and isinstance(value, int) and abs(value) > LARGEST_PARAMETER:
        raise FieldError(name, value, f"must be from -{LARGEST_PARAMETER} to {LARGEST_PARAMETER}")


def _require_moment(name: str, value: str) -> None:
    try:
        is_moment = _MOMENT.fullmatch(value) and datetime.fromisoformat(value)
    except ValueError:  # such as 30 February
        is_moment = None
    if not is_moment:
        raise FieldError(name, value, "must be a time such as 2026-01-31T12:00:00.000+00:00")


def _storable(number: Number) -> Number | str:
    """Return the number, as text where it is an integer of more than 64 bits."""
    if isinstance(number, int) and not -LARGEST_STORED_INTEGER <= number <= LARGEST_STORED_INTEGER:
        return str(number)
    return number
