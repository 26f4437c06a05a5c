"""The instances of a study, before any is made, and the trace that they are cut from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import partial
from glob import glob
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import FieldError, InputError, MissingFieldError, UserError
from lyra_opt.core.loading import load_instance
from lyra_opt.core.own_files import stand_in
from lyra_opt.core.rules import require_choice
from lyra_opt.experiments.study_file import (
    LARGEST_STUDY_RUNS,
    FilesTable,
    Generated,
    LibraryTable,
    Parameter,
    StudyTable,
)
from lyra_opt.instances.family import FAMILIES, find_family
from lyra_opt.instances.library import library as the_library
from lyra_opt.instances.traces import NOT_THERE, locate, read_trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lyra_opt.instances.family import Family
    from lyra_opt.instances.library.documents import Entry


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace file.

    Parameters
    ----------
    path
        Where it is on this machine.
    sha256
        SHA-256 of its bytes.
    """

    path: str
    sha256: str

    @property
    def name(self) -> str:
        """Its name without folders, for rows that are read on other machines."""
        return Path(self.path).name


def find_trace(file: str) -> Trace:
    """Return the trace `file`, looked up as given and then in the folder of LYRA_OPT_TRACES.

    Raises
    ------
    InputError
        If it is in neither place or is no job trace; names row and column.
    """
    path = locate(file)
    if not path.is_file():
        raise InputError(file, f"is no file, {NOT_THERE}")
    read_trace(path)  # a damaged trace is one error now, not one in every row
    try:
        with path.open("rb") as stream:
            return Trace(str(path), hashlib.file_digest(stream, "sha256").hexdigest())
    except OSError as error:
        raise InputError(file, f"cannot be read: {error.strerror or error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One instance of a study, before it is generated.

    Parameters
    ----------
    problem
        That it is an instance of.
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

    problem: str
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


def cells_of(blocks: Sequence[Block], configurations: int, trace: Trace | None) -> tuple[Cell, ...]:
    """Return the cells of every block of instances, none of them twice, all checked."""
    runs = configurations * sum(block.size for block in blocks)
    if runs > LARGEST_STUDY_RUNS:
        raise FieldError("instances", runs, f"runs in all must be at most {LARGEST_STUDY_RUNS}")
    cells: dict[str, Cell] = {}
    for block in blocks:
        for shape in block.shapes():
            try:
                reads_trace, is_seeded = _check_shape(shape, trace)
            except UserError as error:
                raise FieldError(block.path, shape.shape, str(error)) from None
            for seed in block.seeds if is_seeded else block.seeds[:1]:
                cell = replace(shape, seed=seed, reads_trace=reads_trace)
                if cell.key in cells:
                    raise FieldError(block.path, cell.key, "must not occur twice")
                cells[cell.key] = cell
    return tuple(cells.values())


def _check_shape(shape: Cell, trace: Trace | None) -> tuple[bool, bool]:
    """Return whether the family reads a trace and whether seeds matter to it.

    Raises
    ------
    UserError
        If the family refuses what the shape asks for, or the file is no instance of the problem.
    """
    if shape.file_sha256 is not None:
        read_instance_file(shape)
        return False, False
    if shape.family == LIBRARY:
        return False, False  # the catalogue has it, and its content is checked when it is loaded
    family = find_family(shape.problem, shape.family)
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
class Block:
    """One ``[[instances]]`` table, or what a problem has of it.

    Parameters
    ----------
    path
        What errors call it.
    files
        Path and SHA-256 of instance files, in place of families.
    ids
        Of instances of the library, in place of families.
    """

    path: str
    problem: str
    group: str
    families: Sequence[str] = ()
    parameters: Mapping[str, Sequence[Parameter]] = field(default_factory=dict)
    axes: tuple[str, ...] = ()
    seeds: Sequence[int] = (0,)
    files: Sequence[tuple[str, str]] = ()
    ids: Sequence[str] = ()

    @property
    def size(self) -> int:
        """How many instances it has, if all of its families are seeded."""
        generated = len(self.families) * prod(map(len, self.parameters.values()))
        return generated * len(self.seeds) + len(self.files) + len(self.ids)

    def shapes(self) -> Iterator[Cell]:
        """Return a cell, with the first seed, for all that are equal but for their seeds."""
        of_block = partial(Cell, problem=self.problem, group=self.group, seed=self.seeds[0])
        for path, sha256 in self.files:
            yield of_block(family=FILE, parameters=((FILE, path),), axes=(), file_sha256=sha256)
        for name in self.ids:
            yield of_block(family=LIBRARY, parameters=((LIBRARY, name),), axes=())
        for family, values in product(self.families, product(*self.parameters.values())):
            yield of_block(
                family=family,
                parameters=tuple(zip(self.parameters, values, strict=True)),
                axes=self.axes,
            )


FILE, LIBRARY = "file", "library"
"""What stands for a family and its parameter where an instance is there already."""


def blocks_of(study: StudyTable, folder: Path) -> list[Block]:
    """Return the blocks of a study; patterns of files are relative to the folder of its file."""
    return [
        each
        for position, block in enumerate(study.instances)
        for each in _blocks(block, f"instances[{position}]", study, folder)
    ]


def _blocks(
    block: FilesTable | LibraryTable | Generated, path: str, study: StudyTable, folder: Path
) -> list[Block]:
    """Return the blocks that a table of instances comes to, one for each problem."""
    if isinstance(block, LibraryTable):
        return _of_library(block, path, study.problem)
    if len(study.problem) > 1:
        rule = "must be one, as not all instances are of the library"
        raise FieldError("problem", list(study.problem), rule)
    (problem,) = study.problem
    if isinstance(block, FilesTable):
        return [_files(block, path, problem, folder)]
    return [_generated(block, path, study, problem)]


def _of_library(block: LibraryTable, path: str, problems: Sequence[str]) -> list[Block]:
    """Return instances of the library, a block for each problem that has any."""
    library = the_library()
    versions = {each.name: each.instances for each in library.catalogues}
    require_choice(f"{path}.library", block.library, list(versions))
    for position, name in enumerate(block.ids or ()):
        try:
            library.entry(name)
        except UserError as error:
            raise FieldError(f"{path}.ids[{position}]", name, str(error)) from None

    def is_asked_for(entry: Entry) -> bool:
        best = library.known.get(entry.id)
        return (
            (block.ids is None or entry.id in block.ids)
            and (block.grades is None or (best is not None and best.grade in block.grades))
            and (block.largest_size is None or entry.size <= block.largest_size)
        )

    found: dict[str, list[str]] = {problem: [] for problem in problems}
    for entry in filter(is_asked_for, versions[block.library]):
        if entry.problem in found:
            found[entry.problem].append(entry.id)
    if not any(found.values()):
        raise FieldError(path, block.library, "has no instance that is asked for")
    return [
        Block(path=path, problem=problem, group=problem, ids=ids)
        for problem, ids in found.items()
        if ids
    ]


def _generated(block: Generated, path: str, study: StudyTable, problem: str) -> Block:
    for position, family in enumerate(block.table.families):
        FAMILIES.require_known(f"{path}.families[{position}]", family, problem)
    seeds = study.seeds if block.table.seeds is None else block.table.seeds
    if seeds is None:
        raise MissingFieldError("seeds")
    return Block(
        path=path,
        problem=problem,
        group=block.table.group,
        families=block.table.families,
        parameters=block.parameters,
        axes=block.axes,
        seeds=seeds,
    )


def _files(block: FilesTable, path: str, problem: str, folder: Path) -> Block:
    """Return a block of instance files; patterns are relative to the folder of the study."""
    found: dict[str, str] = {}
    for position, pattern in enumerate(block.files):
        paths = sorted(glob(pattern, root_dir=folder))  # noqa: PTH207 - patterns may be absolute
        if not paths:
            how = f"; to make them: {block.made_by}" if block.made_by else ""
            rule = f"names no file in {folder}{how}"
            raise FieldError(f"{path}.files[{position}]", pattern, rule)
        found |= {str(folder / name): _sha256(str(folder / name)) for name in paths}
    return Block(
        path=path,
        problem=problem,
        group=block.group,
        files=tuple(found.items()),
    )


def _sha256(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from None


def read_instance_file(cell: Cell) -> Any:
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
    if loaded.problem.name != cell.problem:
        raise InputError(path, f"is an instance of {loaded.problem.name}, not of {cell.problem}")
    return loaded.instance
