"""List the instances of a study before they are generated, and find the study's job trace."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from glob import glob
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from lyra_opt.core.documents import unreadable
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
from lyra_opt.instances.family import FAMILIES, Family, find_family
from lyra_opt.instances.library import library as the_library
from lyra_opt.instances.library.documents import Entry
from lyra_opt.instances.traces import locate, not_there, read_trace


@dataclass(frozen=True, slots=True)
class Trace:
    """A job trace file.

    Parameters
    ----------
    path
        Path on this machine.
    sha256
        SHA-256 of the content.
    """

    path: str
    sha256: str

    @property
    def name(self) -> str:
        """The file name of the trace, without the folders of this machine."""
        return Path(self.path).name


def find_trace(file: str) -> Trace:
    """Find the trace `file`, as given or else in the folder LYRA_OPT_TRACES.

    Raises
    ------
    InputError
        If the file is in neither place or is not a job trace; names row and column.
    """
    path = locate(file)
    if not path.is_file():
        raise InputError(file, f"is not a file, {not_there(file)}")
    read_trace(path)  # report a damaged trace once, not in every row
    return Trace(str(path), _sha256(str(path)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The description of one instance of a study, from which the instance is generated or read.

    Parameters
    ----------
    problem
        Problem of the instance.
    group
        Name of the group under which the study summarises the instance; empty without a group.
    family
        Family that generates the instance.
    parameters
        Parameters of the family, in file order.
    axes
        Names of the parameters that the study gives as lists.
    seed
        Seed of the generator.
    reads_trace
        Whether the family also reads the job trace.
    file_sha256
        SHA-256 of the instance file that takes the place of a family; None for a family.
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
        """Return the arguments for the family's generator, with the trace path if it reads one."""
        path = str(stand_in(trace.path)) if trace is not None and self.reads_trace else None
        return {**dict(self.parameters), "trace": path}

    @property
    def shape(self) -> str:
        """Family and parameters in words, without the seed."""
        return " ".join([self.family, *(f"{name}={value}" for name, value in self.parameters)])

    @property
    def key(self) -> str:
        """Text that identifies the cell in its study."""
        return f"{self.shape} seed={self.seed}"


def cells_of(
    blocks: "Sequence[Block]", configurations: int, trace: Trace | None
) -> tuple[Cell, ...]:
    """Return the checked instance descriptions of a study; no instance may occur twice."""
    runs = configurations * sum(block.size for block in blocks)
    if runs > LARGEST_STUDY_RUNS:
        raise FieldError(
            "instances", runs, f"total number of runs must be at most {LARGEST_STUDY_RUNS}"
        )
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
    """Check an instance's parameters; return whether its family reads a trace and uses a seed.

    Raises
    ------
    UserError
        If the family refuses the parameters, or a file is not an instance of the problem.
    """
    if shape.file_sha256 is not None:
        read_instance_file(shape)
        return False, False
    if shape.family == LIBRARY:
        return False, False  # checked when the instance is loaded
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
    """The part of an ``[[instances]]`` table of a study file that concerns one problem.

    Parameters
    ----------
    path
        Path of the table in error messages.
    files
        Path and SHA-256 of each instance file, in place of families.
    ids
        Ids of library instances, in place of families.
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
        """The number of instances of the block, provided that each family uses every seed."""
        generated = len(self.families) * prod(map(len, self.parameters.values()))
        return generated * len(self.seeds) + len(self.files) + len(self.ids)

    def shapes(self) -> Iterator[Cell]:
        """Yield the description of each instance of the block for the first of its seeds."""
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
"""Names used for both family and parameter of an instance from a file or from the library."""


def blocks_of(study: StudyTable, folder: Path) -> list[Block]:
    """Return the blocks of instances in a study file; file patterns are relative to `folder`."""
    return [
        each
        for position, block in enumerate(study.instances)
        for each in _blocks(block, f"instances[{position}]", study, folder)
    ]


def _blocks(
    block: FilesTable | LibraryTable | Generated, path: str, study: StudyTable, folder: Path
) -> list[Block]:
    """Return the blocks of one table of instances, one for each problem."""
    if isinstance(block, LibraryTable):
        return _of_library(block, path, study.problem)
    if len(study.problem) > 1:
        rule = "must be one problem unless all instances are from the library"
        raise FieldError("problem", list(study.problem), rule)
    (problem,) = study.problem
    if isinstance(block, FilesTable):
        return [_files(block, path, problem, folder)]
    return [_generated(block, path, study, problem)]


def _of_library(block: LibraryTable, path: str, problems: Sequence[str]) -> list[Block]:
    """Return the library instances of a table, one block for each problem that has any."""
    known = [each.name for each in the_library().catalogues]
    require_choice(f"{path}.library", block.library, known)
    library = the_library(block.library)
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
    for entry in filter(is_asked_for, library.entries.values()):
        if entry.problem in found:
            found[entry.problem].append(entry.id)
    if not any(found.values()):
        raise FieldError(path, block.library, "must have an instance that fits all other keys")
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
            how = f"; make the files with: {block.made_by}" if block.made_by else ""
            rule = f"must match a file in {folder}{how}"
            raise FieldError(f"{path}.files[{position}]", pattern, rule)
        found |= {str(folder / name): _sha256(str(folder / name)) for name in paths}
    return Block(path=path, problem=problem, group=block.group, files=tuple(found.items()))


def _sha256(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise unreadable(path, error) from None


def read_instance_file(cell: Cell) -> Any:
    """Read the instance file that an instance description names, and return the instance.

    Raises
    ------
    UserError
        If the file cannot be read, is not an instance of the problem, or has changed since the
        study was loaded.
    """
    path = str(stand_in(str(dict(cell.parameters)[FILE])))
    if _sha256(path) != cell.file_sha256:
        raise InputError(path, "has changed since the study was loaded")
    loaded = load_instance(path)
    if loaded.problem.name != cell.problem:
        raise InputError(
            path, f"must be an instance of {cell.problem}, not of {loaded.problem.name}"
        )
    return loaded.instance
