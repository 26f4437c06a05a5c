"""Studies: which solvers run on which generated instances, within which limits.

A study is a TOML file; ``experiments/studies`` holds examples, and ``lyra-opt study --keys``
explains every key.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass, replace
from glob import glob
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import parse_toml, read_text
from lyra_opt.core.errors import FieldError, InputError, MissingFieldError, UserError
from lyra_opt.core.fields import parsed
from lyra_opt.core.isolation.loading import find_solver_safely
from lyra_opt.core.loading import load_instance
from lyra_opt.core.own_files import content_sha256, is_reference, located, path_in
from lyra_opt.core.problem import problems
from lyra_opt.core.solver import SOLVERS, find_solver
from lyra_opt.core.stand_ins import stand_in
from lyra_opt.core.validation import require_choice
from lyra_opt.experiments.study_file import (
    LARGEST_STUDY_RUNS,
    FilesTable,
    Generated,
    Parameter,
    StudyTable,
)
from lyra_opt.instances.family import FAMILIES, find_family

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lyra_opt.core.solver import Solver
    from lyra_opt.experiments.trace import Trace
    from lyra_opt.instances.family import Family

LARGEST_STUDY_BYTES = 2**20

NO_LIMIT: tuple[float | None, ...] = (None,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One instance of a study, before it is generated.

    Parameters
    ----------
    group
        The name under which the study sums up its families; empty if it gives none.
    family
        The family that generates it.
    parameters
        What the family is given, in the order of the file.
    axes
        The names of those that the study gives as lists.
    seed
        Seed of the generator.
    reads_trace
        Whether the family is given the job trace too.
    file_sha256
        Of the instance file, which then stands in place of a family; None for a family.
    """

    group: str
    family: str
    parameters: tuple[tuple[str, Parameter], ...]
    axes: tuple[str, ...]
    seed: int
    reads_trace: bool = False
    file_sha256: str | None = None

    def arguments(self, trace: Trace | None) -> dict[str, Any]:
        """Return what the family is asked for; a cell that reads no trace ignores `trace`."""
        path = str(stand_in(trace.path)) if trace is not None and self.reads_trace else None
        return {**dict(self.parameters), "trace": path}

    @property
    def shape(self) -> str:
        """All but the seed, in words."""
        return " ".join([self.family, *(f"{name}={value}" for name, value in self.parameters)])

    @property
    def key(self) -> str:
        """The cell in words, which identify it in its study."""
        return f"{self.shape} seed={self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A solver as a study runs it.

    Parameters
    ----------
    label
        The solver's name, with its time limit where the study runs it with several.
    solver
        The solver's name.
    source, source_sha256
        How a solver in a file of one's own is found, ``my_file.py:NAME``, and the content of the
        file; None for a registered one.
    time_limit_s
        Wall-clock seconds, None without a limit.
    memory_limit_mib
        What the solver may take beyond what it begins with, None without a limit.
    certify
        Whether to add the problem's own bound.
    reference
        Whether it is there to prove the optimum.
    groups
        The groups of instances that it is run on, None for all.
    """

    label: str
    solver: str
    time_limit_s: float | None
    certify: bool
    reference: bool
    groups: tuple[str, ...] | None = None
    memory_limit_mib: float | None = None
    source: str | None = None
    source_sha256: str | None = None

    def find(self, problem: str) -> Solver:
        """Return the solver; `UserError` if its file has changed since the study was loaded."""
        if self.source is None:
            return find_solver(problem, self.solver)
        if content_sha256(self.source) != self.source_sha256:
            raise InputError(str(path_in(self.source)), "has changed since the study was loaded")
        return find_solver(problem, self.source)

    def runs_on(self, cell: Cell) -> bool:
        """Return whether the study runs it on that instance."""
        return self.groups is None or cell.group in self.groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A validated study; its runs are every cell with every configuration for its group.

    Parameters
    ----------
    source
        The file, as given.
    text
        Its content, word for word, below a comment for each key that was changed.
    name, problem, description, headline
        As in the file; without a headline that is empty.
    cells
        The instances, in the order of the file.
    configurations
        The solvers, in the order of the file.
    trace
        The job trace for the cells that read one.
    """

    source: str
    text: str
    name: str
    problem: str
    description: str
    headline: Sequence[str]
    cells: tuple[Cell, ...]
    configurations: tuple[Configuration, ...]
    trace: Trace | None

    def runs(self) -> Iterator[tuple[Cell, Configuration]]:
        """Yield every run, cell by cell."""
        for cell, configuration in product(self.cells, self.configurations):
            if configuration.runs_on(cell):
                yield cell, configuration

    def meaning_hash(self) -> str:
        """Return the SHA-256 of what is run; comments, layout and description do not count."""
        meaning = {
            "name": self.name,
            "problem": self.problem,
            "trace_sha256": None if self.trace is None else self.trace.sha256,
            "cells": [asdict(cell) for cell in self.cells],
            "configurations": [asdict(configuration) for configuration in self.configurations],
        }
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def read_study(
    path: str | Path,
    trace: Trace | None = None,
    *,
    changes: Mapping[str, int | float] | None = None,
) -> Study:
    """Read and validate a study file.

    Parameters
    ----------
    trace
        For the families that read one.
    changes
        What to put in place of the file's own keys ``seeds`` or ``time_limit_s``, or to add;
        blocks that have keys of their own keep them.

    Raises
    ------
    InputError
        Naming file, field, value and rule.
    UserError
        If a trace is given that no family of the study reads.
    """
    source = str(path)
    text = read_text(path, LARGEST_STUDY_BYTES)
    document = parse_toml(text, source, "a study")
    for key, value in (changes or {}).items():
        document[key] = value
        text = f"# run with {key} = {value!r} in place of the file's\n{text}"
    try:
        study = _parse_study(document, source, text, trace)
    except FieldError as error:
        raise InputError(source, str(error)) from None
    if trace is not None and not any(cell.reads_trace for cell in study.cells):
        raise UserError(
            f"--trace is {trace.path}: no family of the study {study.name} reads a trace"
        )
    return study


def _parse_study(document: dict[str, Any], source: str, text: str, trace: Trace | None) -> Study:
    table = parsed(StudyTable, document)
    problem = require_choice("problem", table.problem, problems())
    blocks = [
        _files(block, f"instances[{position}]", Path(source).parent)
        if isinstance(block, FilesTable)
        else _generated(block, f"instances[{position}]", table, problem)
        for position, block in enumerate(table.instances)
    ]
    groups = {block.group for block in blocks}
    configurations = _configurations(table, problem, groups, Path(source).parent)
    _require_known("headline", table.headline, [each.solver for each in configurations])
    return Study(
        source=source,
        text=text,
        name=table.name,
        problem=problem,
        description=table.description,
        headline=table.headline,
        cells=_cells(blocks, problem, len(configurations), trace),
        configurations=configurations,
        trace=trace,
    )


def _require_known(path: str, names: Sequence[str], known: Sequence[str]) -> None:
    for position, name in enumerate(names):
        require_choice(f"{path}[{position}]", name, list(dict.fromkeys(known)))


def _cells(
    blocks: Sequence[_Block], problem: str, configurations: int, trace: Trace | None
) -> tuple[Cell, ...]:
    """Return the cells of every block of instances, none of them twice, all checked."""
    runs = configurations * sum(block.size for block in blocks)
    if runs > LARGEST_STUDY_RUNS:
        raise FieldError("instances", runs, f"runs in all must be at most {LARGEST_STUDY_RUNS}")
    cells: dict[str, Cell] = {}
    for position, block in enumerate(blocks):
        for shape in block.shapes():
            try:
                reads_trace, is_seeded = _check_shape(problem, shape, trace)
            except UserError as error:
                raise FieldError(f"instances[{position}]", shape.shape, str(error)) from None
            for seed in block.seeds if is_seeded else block.seeds[:1]:
                cell = replace(shape, seed=seed, reads_trace=reads_trace)
                if cell.key in cells:
                    raise FieldError(f"instances[{position}]", cell.key, "must not occur twice")
                cells[cell.key] = cell
    return tuple(cells.values())


def _check_shape(problem: str, shape: Cell, trace: Trace | None) -> tuple[bool, bool]:
    """Return whether the family reads a trace and whether seeds matter to it.

    Raises
    ------
    UserError
        If the family refuses what the shape asks for, or the file is no instance of the problem.
    """
    if shape.file_sha256 is not None:
        read_instance_file(problem, shape)
        return False, False
    family = find_family(problem, shape.family)
    try:
        arguments = shape.arguments(None)
        family.check(arguments)
        return False, family.is_seeded(arguments)
    except UserError:
        arguments = replace(shape, reads_trace=True).arguments(trace)
        if trace is None or not _accepts(family, arguments):
            raise
        return True, family.is_seeded(arguments)


def _accepts(family: Family, arguments: dict[str, Any]) -> bool:
    try:
        family.check(arguments)
    except UserError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """One ``[[instances]]`` table."""

    group: str
    families: Sequence[str]
    parameters: Mapping[str, Sequence[Parameter]]
    axes: tuple[str, ...]
    seeds: Sequence[int]
    files: Sequence[tuple[str, str]] = ()
    """Path and SHA-256 of instance files, in place of families."""

    @property
    def size(self) -> int:
        generated = len(self.families) * prod(map(len, self.parameters.values()))
        return generated * len(self.seeds) + len(self.files)

    def shapes(self) -> Iterator[Cell]:
        """Return a cell, with the first seed, for all that are equal but for their seeds."""
        for path, sha256 in self.files:
            yield Cell(
                group=self.group,
                family=FILE,
                parameters=((FILE, path),),
                axes=(),
                seed=self.seeds[0],
                file_sha256=sha256,
            )
        for family, values in product(self.families, product(*self.parameters.values())):
            yield Cell(
                group=self.group,
                family=family,
                parameters=tuple(zip(self.parameters, values, strict=True)),
                axes=self.axes,
                seed=self.seeds[0],
            )


FILE = "file"
"""What stands for a family and its parameter where an instance is read from a file."""


def _generated(block: Generated, path: str, study: StudyTable, problem: str) -> _Block:
    for position, family in enumerate(block.table.families):
        FAMILIES.require_known(f"{path}.families[{position}]", family, problem)
    seeds = study.seeds if block.table.seeds is None else block.table.seeds
    if seeds is None:
        raise MissingFieldError("seeds")
    return _Block(
        group=block.table.group,
        families=block.table.families,
        parameters=block.parameters,
        axes=block.axes,
        seeds=seeds,
    )


def _files(block: FilesTable, path: str, folder: Path) -> _Block:
    """Return a block of instance files; patterns are relative to the folder of the study."""
    found: dict[str, str] = {}
    for position, pattern in enumerate(block.files):
        paths = sorted(glob(pattern, root_dir=folder))  # noqa: PTH207 - patterns may be absolute
        if not paths:
            how = f"; to make them: {block.made_by}" if block.made_by else ""
            rule = f"names no file in {folder}{how}"
            raise FieldError(f"{path}.files[{position}]", pattern, rule)
        found |= {str(folder / name): _sha256(str(folder / name)) for name in paths}
    return _Block(
        group=block.group,
        families=(),
        parameters={},
        axes=(),
        seeds=(0,),
        files=tuple(found.items()),
    )


def _sha256(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from None


def read_instance_file(problem: str, cell: Cell) -> Any:
    """Return the instance of a cell that names a file.

    Raises
    ------
    UserError
        If it cannot be read, is no instance of the problem, or has changed since the study was
        loaded.
    """
    path = str(stand_in(str(dict(cell.parameters)[FILE])))
    if _sha256(path) != cell.file_sha256:
        raise InputError(path, "has changed since the study was loaded")
    loaded = load_instance(path)
    if loaded.problem.name != problem:
        raise InputError(path, f"is an instance of {loaded.problem.name}, not of {problem}")
    return loaded.instance


def _configurations(
    study: StudyTable, problem: str, groups: Collection[str], folder: Path
) -> tuple[Configuration, ...]:
    """Return the solvers of every block, none of them twice with one limit."""
    found: list[Configuration] = []
    for position, block in enumerate(study.solvers):
        path = f"solvers[{position}]"
        named = {
            name: _named(name, problem, f"{path}.names[{place}]", folder)
            for place, name in enumerate(block.names)
        }
        _require_known(f"{path}.groups", block.groups or (), sorted(groups))
        limits = block.time_limit_s or study.time_limit_s or NO_LIMIT
        for given, limit in product(block.names, limits):
            name, source, source_sha256 = named[given]
            if any((name, limit) == (other.solver, other.time_limit_s) for other in found):
                rule = "must not be named twice with the same time limit"
                raise FieldError(f"{path}.names", given, rule)
            found.append(
                Configuration(
                    label=name,
                    solver=name,
                    time_limit_s=limit,
                    memory_limit_mib=study.memory_limit_mib,
                    certify=study.certify if block.certify is None else block.certify,
                    reference=block.reference,
                    groups=block.groups,
                    source=source,
                    source_sha256=source_sha256,
                )
            )
    return _with_limits_in_labels(found)


def _named(given: str, problem: str, path: str, folder: Path) -> tuple[str, str | None, str | None]:
    """Return the name of a solver and, if it is one of the user's own, where it is from.

    Registered ones are not loaded: one that cannot be costs its rows, not the study.
    """
    if given in SOLVERS.names(problem):
        return given, None, None
    source = located(given, folder)
    try:
        name = find_solver_safely(problem, source).name
        return (name, source, content_sha256(source)) if is_reference(given) else (name, None, None)
    except UserError as error:
        raise FieldError(path, given, str(error)) from error.__cause__


def _with_limits_in_labels(found: list[Configuration]) -> tuple[Configuration, ...]:
    """Tell configurations of one solver apart by their limits."""
    uses = Counter(configuration.solver for configuration in found)
    return tuple(
        configuration
        if uses[configuration.solver] == 1
        else replace(
            configuration, label=f"{configuration.solver} {_limit_in_words(configuration)}"
        )
        for configuration in found
    )


def _limit_in_words(configuration: Configuration) -> str:
    limit = configuration.time_limit_s
    return "without limit" if limit is None else f"within {limit!r} s"
