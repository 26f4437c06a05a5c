"""The rows of a store of results: what every run has, and what each kind of run has beside.

A kind of run is one frozen dataclass with a class variable `kind`, whose fields are its columns,
and an entry of `KINDS`. A field that SQLite cannot hold says in its metadata how it is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from lyra_opt.core.errors import FieldError
from lyra_opt.core.problem import find_problem, problems
from lyra_opt.core.result import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from lyra_opt.core.result import Number

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
        As in `lyra_opt.experiments.environment.Environment`.
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
