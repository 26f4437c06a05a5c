"""Read studies, which define the solvers to run, the instances to solve, and the limits.

A study is a TOML file. Examples are in ``experiments/studies``; ``lyra-opt study --keys`` explains
every key.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from lyra_opt.core.documents import parse_toml, read_text
from lyra_opt.core.errors import FieldError, InputError, UserError, in_file
from lyra_opt.core.fields import parsed
from lyra_opt.core.isolation.loading import find_solver_safely
from lyra_opt.core.own_files import content_sha256, is_reference, located, path_in
from lyra_opt.core.problem import problems
from lyra_opt.core.rules import require_choice, require_choices
from lyra_opt.core.solver import SOLVERS, Solver, find_solver
from lyra_opt.experiments.study_cells import Cell, Trace, blocks_of, cells_of
from lyra_opt.experiments.study_file import ALL_SOLVERS, StudyTable

NO_LIMIT: tuple[float | None, ...] = (None,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A solver with its settings in a study.

    Parameters
    ----------
    problem
        Problem whose instances the solver solves.
    label
        Name of the solver, with its time limit if the study runs it with several limits.
    solver
        Name of the solver.
    source, source_sha256
        Source ``my_file.py:NAME`` of a solver in the user's own file, and the SHA-256 of the file;
        None for a registered solver.
    time_limit_s
        Wall-clock seconds; None without a limit.
    memory_limit_mib
        Memory that the solver may use on top of its start value; None without a limit.
    certify
        Whether to add the problem's own bound.
    reference
        Whether the solver runs only to prove optima.
    groups
        Groups of instances on which the solver runs; None for all groups.
    """

    problem: str
    label: str
    solver: str
    time_limit_s: float | None
    certify: bool
    reference: bool
    groups: tuple[str, ...] | None = None
    memory_limit_mib: float | None = None
    source: str | None = None
    source_sha256: str | None = None

    def find(self) -> Solver:
        """Return the solver; raise `UserError` if its file changed after the study was loaded."""
        if self.source is None:
            return find_solver(self.problem, self.solver)
        if content_sha256(self.source) != self.source_sha256:
            raise InputError(str(path_in(self.source)), "has changed since the study was loaded")
        return find_solver(self.problem, self.source)

    def runs_on(self, cell: Cell) -> bool:
        """Return whether the study runs this solver on an instance."""
        of_group = self.groups is None or cell.group in self.groups
        return of_group and self.problem == cell.problem


def configurations_of(
    study: StudyTable, groups: Collection[str], folder: Path
) -> tuple[Configuration, ...]:
    """Return the solver configurations of a study; no solver may have the same time limit twice."""
    found: list[Configuration] = []
    for position, block in enumerate(study.solvers):
        path = f"solvers[{position}]"
        named = [
            (given, each)
            for place, given in enumerate(block.names)
            for each in _named(given, study.problem, f"{path}.names[{place}]", folder)
        ]
        require_choices(f"{path}.groups", block.groups or (), groups)
        limits = block.time_limit_s or study.time_limit_s or NO_LIMIT
        for (given, solver), limit in product(named, limits):
            which = (solver.problem, solver.name, limit)
            if any(which == (each.problem, each.solver, each.time_limit_s) for each in found):
                rule = "must not occur twice with the same time limit"
                raise FieldError(f"{path}.names", given, rule)
            found.append(
                Configuration(
                    problem=solver.problem,
                    label=solver.name,
                    solver=solver.name,
                    time_limit_s=limit,
                    memory_limit_mib=study.memory_limit_mib,
                    certify=study.certify if block.certify is None else block.certify,
                    reference=solver.is_reference if block.reference is None else block.reference,
                    groups=block.groups,
                    source=solver.source,
                    source_sha256=solver.source_sha256,
                )
            )
    return _with_limits_in_labels(found)


class _Named(NamedTuple):
    """A solver that a study names, with its source if it is the user's own."""

    problem: str
    name: str
    source: str | None = None
    source_sha256: str | None = None
    is_reference: bool = False


def _named(given: str, problems: Sequence[str], path: str, folder: Path) -> list[_Named]:
    """Return the solvers with a given name, at most one per problem unless the name is `*`.

    Registered solvers are not loaded: one that cannot be loaded fails its own rows, not the study.
    """
    if given == ALL_SOLVERS:
        return [
            _Named(problem, name, is_reference=_proves_optima(problem, name))
            for problem in problems
            for name in SOLVERS.names(problem)
        ]
    registered = [problem for problem in problems if given in SOLVERS.names(problem)]
    if registered:
        return [_Named(problem, given) for problem in registered]
    source = located(given, folder)
    found: list[_Named] = []
    refused: list[UserError] = []
    for problem in problems:
        try:
            name = find_solver_safely(problem, source).name
            own = (source, content_sha256(source)) if is_reference(given) else ()
            found.append(_Named(problem, name, *own))
        except UserError as error:  # a solver in a file solves only one problem
            refused.append(error)
    if not found:
        raise FieldError(path, given, str(refused[0])) from refused[0].__cause__
    return found


def _proves_optima(problem: str, name: str) -> bool:
    try:
        return bool(find_solver_safely(problem, name).exact_variants)
    except UserError:  # fails its own rows, not the study
        return False


def _with_limits_in_labels(found: list[Configuration]) -> tuple[Configuration, ...]:
    """Add time limits to the labels of solvers that run with several limits."""
    uses = Counter((configuration.problem, configuration.solver) for configuration in found)
    return tuple(
        configuration
        if uses[configuration.problem, configuration.solver] == 1
        else replace(
            configuration, label=f"{configuration.solver} {_limit_in_words(configuration)}"
        )
        for configuration in found
    )


def _limit_in_words(configuration: Configuration) -> str:
    limit = configuration.time_limit_s
    return "without limit" if limit is None else f"within {limit!r} s"


LARGEST_STUDY_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A validated study, with the instances and the solver configurations to run on them.

    Parameters
    ----------
    source
        Path of the file, as given.
    text
        Text of the file, word for word, below a comment for each changed key.
    name, problems, description, headline
        As in the file; the headline is empty if the file has no headline.
    cells
        The instances, in file order.
    configurations
        The solvers, in file order.
    trace
        The job trace for cells that read one; None without a trace.
    """

    source: str
    text: str
    name: str
    problems: tuple[str, ...]
    description: str
    headline: Sequence[str]
    cells: tuple[Cell, ...]
    configurations: tuple[Configuration, ...]
    trace: Trace | None

    def runs(self) -> Iterator[tuple[Cell, Configuration]]:
        """Yield every pair of instance and solver, instance by instance."""
        for cell, configuration in product(self.cells, self.configurations):
            if configuration.runs_on(cell):
                yield cell, configuration

    def meaning_hash(self) -> str:
        """Return the SHA-256 of the study's name, instances, solver settings and trace."""
        meaning = {
            "name": self.name,
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
    solvers: Sequence[str] = (),
) -> Study:
    """Read and validate a study file.

    Parameters
    ----------
    trace
        Job trace for families that read one.
    changes
        New values for the file's keys ``seeds`` or ``time_limit_s``; blocks with keys of their own
        keep them.
    solvers
        Further solvers to run on all instances: names, or ``my_file.py:NAME``.

    Raises
    ------
    InputError
        If the file breaks a rule; names file, field, value and rule.
    UserError
        If a trace is given but no family of the study reads a trace.
    """
    source = str(path)
    text = read_text(path, LARGEST_STUDY_BYTES)
    document = parse_toml(text, source, "a study file")
    for key, value in (changes or {}).items():
        document[key] = value
        text = f"# run with {key} = {value!r}\n{text}"
    if solvers and isinstance(document.get("solvers"), list):
        document["solvers"].append({"names": list(solvers)})
        text = f"# run also with the solvers {', '.join(solvers)}\n{text}"
    with in_file(source):
        study = study_of(document, source, text, trace)
    if trace is not None and not any(cell.reads_trace for cell in study.cells):
        raise UserError(f"--trace {trace.path}: no family of the study {study.name} reads a trace")
    return study


def study_of(document: dict[str, Any], source: str, text: str, trace: Trace | None = None) -> Study:
    """Return the study that the keys of a study file describe.

    Parameters
    ----------
    document
        The keys of the file.
    source
        The path of the file; other paths in it are relative to its folder.
    text
        The text of the file.
    trace
        Job trace for families that read one.

    Raises
    ------
    FieldError
        If a key breaks a rule.
    """
    table = parsed(StudyTable, document)
    for problem in table.problem:
        require_choice("problem", problem, problems())
    folder = Path(source).parent
    blocks = blocks_of(table, folder)
    configurations = configurations_of(table, {block.group for block in blocks}, folder)
    require_choices("headline", table.headline, [each.solver for each in configurations])
    return Study(
        source=source,
        text=text,
        name=table.name,
        problems=table.problem,
        description=table.description,
        headline=table.headline,
        cells=cells_of(blocks, len(configurations), trace),
        configurations=configurations,
        trace=trace,
    )
