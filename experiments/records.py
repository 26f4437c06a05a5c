"""Define the columns of a result store: those of every run, and those of each kind of run.

A kind of run is a frozen dataclass with a class variable `kind`, whose fields are its columns, and
an entry of `KINDS`. A field of a type that SQLite lacks says in its metadata how to store it.

SQLite stores records as rows of plain values, and workers on other machines send such rows. Anybody
may have changed such a row, so each value is compared with the type of its column before a record
is built.
"""

import json
import math
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

from msgspec import Meta, ValidationError, convert

from lyra_opt.core.errors import FieldError
from lyra_opt.core.problem import find_problem, problems
from lyra_opt.core.result import Number, Status
from lyra_opt.core.rules import require_choice

if TYPE_CHECKING:
    from dataclasses import Field

    import pandas as pd

MEASURED_PACKAGES = ("lyra-opt", "numpy", "scipy", "numba", "pulp", "highspy", "ortools")


@dataclass(frozen=True, slots=True)
class Environment:
    """Package versions and machine of a run.

    Parameters
    ----------
    versions
        Version by package name, including "python"; None for a package that is not installed.
    cpu
        Model name of the processor.
    cores
        Number of logical processors of the machine.
    platform
        Operating system and C library, as Python names them.
    """

    versions: dict[str, str | None]
    cpu: str
    cores: int
    platform: str


@cache
def current_environment() -> Environment:
    """Return the package versions and the machine of this process."""
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


AxisValue = str | int | float | bool

LARGEST_PARAMETER = 2**53
"""The largest integer parameter of a family; plots draw parameters as floats."""

Parameter = str | Annotated[int, Meta(ge=-LARGEST_PARAMETER, le=LARGEST_PARAMETER)]

JSON: Final = MappingProxyType({"stored": "json"})
"""Metadata of a list or an object, which is stored as JSON text."""
NUMBER: Final = MappingProxyType({"stored": "number"})
"""Metadata of a number of any size; an integer beyond 64 bits is stored as text."""
FLAG: Final = MappingProxyType({"stored": "flag"})
"""Metadata of true or false, which is stored as 1 or 0."""
MOMENT: Final = MappingProxyType({"stored": "moment"})
"""Metadata of a UTC time, which is stored as ISO 8601 text."""
BESIDE: Final = MappingProxyType({"stored": "beside"})
"""Metadata of a field that is not a column but is stored in files next to the row."""

ERROR = "error"
"""The status of a failed run of any kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRecord:
    """The study, or other list of runs, whose results a store contains.

    Parameters
    ----------
    name, description
        Name and purpose of the study, for people.
    kind
        Kind of the runs; a key of `KINDS`.
    text
        The study file, word for word, below a comment for each key that was changed. A study
        without a file has another description of its runs.
    meaning_hash
        SHA-256 of everything that decides what is run; comments and layout do not count.
    runs
        Number of runs of the complete study.
    settings
        JSON values by name that hold for all runs.
    """

    name: str
    kind: str
    description: str = ""
    text: str
    meaning_hash: str
    runs: int
    settings: Mapping[str, Any] = field(default_factory=dict, metadata=JSON)

    def check(self) -> None:
        """Raise `FieldError` if a setting that reports read has the wrong type."""
        for name in ("headline", "schemes"):
            given = self.settings.get(name, [])
            if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
                raise FieldError(f"settings.{name}", given, "must be a list of names")
        if not isinstance(self.settings.get("left_out", {}), dict):
            raise FieldError("settings.left_out", self.settings["left_out"], "must be an object")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run in a result store, with the columns that all kinds of runs share.

    None is stored as NULL.

    Parameters
    ----------
    study
        Name of the study.
    position
        Position of the run in the study, from 0; tables and plots keep this order.
    key
        Text that identifies the run in its store.
    axes
        Values of this run on the axes of the study.
    seed
        Seed of the random draws of the run; runs with equal seeds share their draws.
    status
        How the run ended; `ERROR` if it failed.
    message
        Reason why the run failed or was skipped.
    wall_time_s, cpu_time_s
        Wall-clock and processor seconds of the part that the docstring of the kind names.
    peak_memory_mib
        Peak resident memory of the process during the run, including loaded libraries.
    versions, cpu, cores, platform
        As in `lyra_opt.experiments.records.Environment`.
    started_at
        Start of the run in UTC, ISO 8601.
    tables
        Tables stored next to the row as ``runs/KEY/NAME.csv.gz``, by name; see
        `lyra_opt.experiments.store.table_path`. Not a column: a record that is read from a store
        has no tables.
    documents
        Texts of further files, by absolute path. Not a column.
    """

    kind: ClassVar[str]
    compared_by: ClassVar[tuple[str, ...]]
    """Columns that, with axes and seed, identify the matching run of another store."""
    drawn_by: ClassVar[tuple[str, ...]]
    """Columns whose values agree for runs that share their random draws."""
    measures: ClassVar[tuple[str, ...]] = ("wall_time_s", "cpu_time_s", "peak_memory_mib")
    """Columns with measured values, in addition to figures and counters."""

    def check(self) -> None:
        """Raise `FieldError` if a value of the right type breaks another rule of its column."""

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
    tables: "Mapping[str, pd.DataFrame]" = field(
        default_factory=dict, metadata=BESIDE, repr=False, compare=False
    )
    documents: Mapping[str, str] = field(
        default_factory=dict, metadata=BESIDE, repr=False, compare=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverRecord(RunRecord):
    """One run of one solver on one instance.

    ``wall_time_s`` is the time of the solver alone, after an untimed call that loads libraries.
    ``cpu_time_s`` and ``peak_memory_mib`` include the process of the solver and the processes that
    it starts. ``seed`` is the seed of the instance.

    Parameters
    ----------
    problem
        Name of the problem.
    cell
        Description of the instance in words, such as ``bf-trace servers=20 reclaim_percent=10
        seed=0``.
    configuration
        The solver, and its time limit if the study runs the solver with several limits. `cell` and
        `configuration` together identify the row.
    family_group
        Name of a group of families that the study summarises together; empty without a name.
    family, family_parameters
        Family and parameters that generated the instance, or the file that it was read from.
    trace_name, trace_sha256
        The job trace that the instance was cut from; None without a trace.
    size
        Size of the instance as its problem counts it; None if the generator failed.
    instance_name, content_sha256, variant
        Name, content hash and variant of the generated instance; None if the generator failed.
    known_optimum
        Optimum that the family knows by construction; used as a check, not as a proof.
    terms
        Number of terms that the objective encodes as one integer. If there are several, objectives
        are not compared in percent.
    solver, solver_seed
        Name and seed of the solver. The seed reproduces the run with ``lyra-opt solve --seed``.
    solver_source, solver_sha256
        Source ``my_file.py:NAME`` of a solver that is not registered, and the SHA-256 of its file;
        None for registered solvers.
    time_limit_s
        Time limit in seconds; None without a limit.
    memory_limit_mib
        Memory that the solver may use on top of its start value; None without a limit.
    certify
        Whether the problem's own bound was computed in addition to the solver's bound.
    reference
        Whether the study includes the solver only to prove optima.
    status
        How the run ended.
    stopped_by, objective, dual_bound
        As in `lyra_opt.core.solving.Answer`.
    certify_time_s
        Seconds spent on the problem's own bound.
    counters
        Effort counters of the solver, by name.
    solution
        The solution as a document that ``lyra-opt verify`` reads.
    """

    kind = "solver"
    compared_by = ("family_group", "family", "cell", "configuration")
    drawn_by = ("cell",)
    measures = ("objective", "dual_bound", *RunRecord.measures, "certify_time_s")

    problem: str
    cell: str
    configuration: str
    family_group: str
    family: str
    family_parameters: Mapping[str, Parameter] = field(metadata=JSON)
    trace_name: str | None
    trace_sha256: str | None
    size: int | None = None
    instance_name: str | None = None
    content_sha256: str | None = None
    variant: str | None = None
    known_optimum: Number | None = field(default=None, metadata=NUMBER)
    terms: int | None = None
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
        """Raise `FieldError` if the problem, the variant or the size parameter is not valid."""
        require_choice("problem", self.problem, problems())
        problem = find_problem(self.problem)
        if self.variant is not None:
            require_choice("variant", self.variant, list(problem.variants))
        asked = self.family_parameters.get(problem.size_name, 0)
        if not isinstance(asked, int):
            name = f"family_parameters.{problem.size_name}"
            raise FieldError(name, asked, "must be an integer")


class ReplayStatus(StrEnum):
    """How a simulation ended."""

    FINISHED = "finished"
    """All jobs are complete, and GPU-seconds, work and time are conserved."""
    ERROR = ERROR
    """The simulation failed, or its result cannot be right; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRecord(RunRecord):
    """One simulation of a workload on a cluster under a scheduling scheme.

    ``wall_time_s`` and ``cpu_time_s`` measure the simulation alone. The tables are ``jobs``, with
    one row per job in the order of the workload, and ``series``, with one row per moment.

    Parameters
    ----------
    status
        How the simulation ended.
    scenario, scheme, workload, cluster
        Names of scenario, scheme, workload and cluster.
    setting
        Properties of cluster, workload and scheme that reports show; see
        `lyra_opt.experiments.simulation.running.tasks.setting_of`. Empty if the run failed.
    figures
        Measured values by name; None if the run failed.
    assumptions
        Assumptions of the simulation, one sentence each.
    """

    kind = "replay"
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
        """The run's value on each axis of the scenario, by name of the axis, without the scheme."""
        return {name: value for name, value in self.axes.items() if name != "scheme"}


KINDS: Mapping[str, type[RunRecord]] = {
    record.kind: record for record in (SolverRecord, ReplayRecord)
}
"""The record class of each kind of run."""


LARGEST_STORED_INTEGER = 2**63 - 1
RecordT = TypeVar("RecordT", StudyRecord, RunRecord)

_MOMENT = re.compile(r"(19|20)\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?\+00:00")
_INTEGER = re.compile(r"-?[0-9]{1,300}")  # more digits do not fit a float


def columns_of(record: type[StudyRecord | RunRecord]) -> "list[Field[Any]]":
    """Return the fields of a record class that are columns of its table."""
    return [column for column in fields(record) if column.metadata != BESIDE]


def encoded(record: StudyRecord | RunRecord) -> dict[str, Any]:
    """Return a record as a row of texts, integers, floats and None that SQLite can store."""
    row = {}
    for column in columns_of(type(record)):
        value = getattr(record, column.name)
        if value is None:
            pass
        elif column.metadata == JSON:
            value = json.dumps(value, separators=(",", ":"))
        elif column.metadata == NUMBER:
            is_large = isinstance(value, int) and abs(value) > LARGEST_STORED_INTEGER
            value = str(value) if is_large else value
        elif isinstance(value, str):  # the text of an error may contain lone surrogates
            value = value.encode("utf-8", "backslashreplace").decode()
        row[column.name] = value
    return row


def decoded(kind: type[RecordT], row: Mapping[str, Any]) -> RecordT:
    """Build a record of the given class from a row of a store.

    Raises
    ------
    FieldError
        If a column is missing, unknown or breaks its rule; the error names the column.
    """
    known = columns_of(kind)
    for name in row.keys() ^ {column.name for column in known}:
        raise FieldError(name, row.get(name), "column is missing or unknown")
    values = {column.name: _decoded(column, row[column.name]) for column in known}
    record = kind(**values)
    record.check()
    return record


def _decoded(column: "Field[Any]", value: Any) -> Any:
    """Return the value of a column, of the type that its annotation states."""
    shown = f"{len(value)} bytes" if isinstance(value, bytes) else value
    try:
        if column.metadata == JSON and value is not None:
            value = json.loads(convert(value, str))
        elif column.metadata == NUMBER and isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        elif column.metadata == MOMENT and _MOMENT.fullmatch(convert(value, str)):
            datetime.fromisoformat(value)  # refuses 30 February
        elif column.metadata == MOMENT:
            raise ValueError("must be a time such as 2026-01-31T12:00:00.000+00:00")
        elif isinstance(value, float) and not math.isfinite(value) and column.metadata != NUMBER:
            raise ValueError("must be finite")
        return convert(value, column.type, strict=column.metadata != FLAG)
    except (ValidationError, ValueError, RecursionError) as error:
        raise FieldError(column.name, shown, str(error)) from None
