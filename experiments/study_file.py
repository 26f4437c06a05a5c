"""The keys of a study file; ``lyra-opt study --keys`` lists them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import join_path
from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import Table, key, parsed, schema_of
from lyra_opt.core.rules import (
    Choice,
    Flag,
    Integer,
    Line,
    ListOf,
    Name,
    Number,
    OneOrList,
    Rule,
    Seeds,
    Text,
)
from lyra_opt.instances.library.documents import Grade
from lyra_opt.instances.parameters import PARAMETER

if TYPE_CHECKING:
    from collections.abc import Mapping

STUDY_FORMAT = "lyra-opt/study"
STUDY_VERSION = 2
LARGEST_STUDY_RUNS = 1_000_000

Parameter = str | int

ALL_SOLVERS = "*"
"""What stands for every registered solver in a list of names."""

RESERVED = {"seed": "is given as seeds", "trace": "is given on the command line"}
"""Parameters of families that a block of instances does not set, and why."""

_NAMES = ListOf(Text(), distinct=True)
_SEEDS = Seeds(LARGEST_STUDY_RUNS)
_LIMITS = OneOrList(Number(above=True))
_GROUP = key(Line(), "name under which the report sums the instances up", "")


_VALUES = OneOrList(PARAMETER)


@dataclass(frozen=True, kw_only=True)
class FamiliesTable:
    """Instances that families generate."""

    group: str = _GROUP
    families: tuple[str, ...] = key(
        _NAMES,
        'families that generate the instances, see "lyra-opt generate"; all other keys are their '
        "parameters, a list of which is an axis of the study: instances are generated with each "
        "entry, and tables have a column",
    )
    seeds: tuple[int, ...] | None = key(
        _SEEDS,
        "of the instances; a family that is not seeded has the first alone",
        None,
        shown="those of the study",
    )


@dataclass(frozen=True, kw_only=True)
class FilesTable:
    """Instances that are there already."""

    group: str = _GROUP
    files: tuple[str, ...] = key(
        _NAMES, "instance files in place of families; patterns are relative to the study's folder"
    )
    made_by: str = key(Line(), "how to make them, said where there are none", "")


@dataclass(frozen=True, kw_only=True)
class LibraryTable:
    """Instances of the instance library; each in the group that is called as its problem."""

    library: str = key(
        Name(), 'version of the instance library that they came with, see "lyra-opt library list"'
    )
    grades: tuple[Grade, ...] | None = key(
        ListOf(Choice(Grade), distinct=True), "those of these grades", None, shown="all"
    )
    ids: tuple[str, ...] | None = key(_NAMES, "those that are called so", None, shown="all")
    largest_size: int | None = key(
        Integer(1), "those of at most so many servers or jobs", None, shown="any"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A block of instances that families generate, with what the families are given.

    Parameters
    ----------
    table
        The keys that all such blocks have.
    parameters
        The values of each other key.
    axes
        Those that are lists: instances are generated with each entry, and tables have a column.
    """

    table: FamiliesTable
    parameters: Mapping[str, tuple[Parameter, ...]]
    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Instances(Rule):
    """The rule of a block of instances."""

    tables = (FamiliesTable, FilesTable, LibraryTable)

    def check(self, path: str, value: object) -> FilesTable | LibraryTable | Generated:
        """Return a block; keys that are none of its own are parameters of the families."""
        if isinstance(value, dict) and "library" in value:
            return parsed(LibraryTable, value, path)
        if not isinstance(value, dict) or "files" in value:
            return parsed(FilesTable, value, path)
        known = {each.name for each in fields(FamiliesTable)}
        given = {name: each for name, each in value.items() if name not in known}
        for name in set(given) & set(RESERVED):
            raise FieldError(join_path(path, name), given[name], RESERVED[name])
        return Generated(
            table=parsed(FamiliesTable, {k: value[k] for k in value if k in known}, path),
            parameters={
                name: _VALUES.check(join_path(path, name), each) for name, each in given.items()
            },
            axes=tuple(name for name, each in given.items() if isinstance(each, list)),
        )

    def schema(self) -> dict[str, Any]:
        """See `lyra_opt.core.rules.Rule`."""
        generated = schema_of(FamiliesTable) | {"additionalProperties": _VALUES.schema()}
        return {"anyOf": [schema_of(FilesTable), schema_of(LibraryTable), generated]}

    def in_words(self) -> str:
        """See `lyra_opt.core.rules.Rule`."""
        return "table with families, with files, or with a library"


@dataclass(frozen=True, kw_only=True)
class SolversTable:
    """Solvers that are run alike."""

    names: tuple[str, ...] = key(
        _NAMES,
        'solvers, see "lyra-opt solvers"; one in a file of your own, which is looked for beside '
        f'the study, is my_file.py:NAME; "{ALL_SOLVERS}" is every registered one',
    )
    groups: tuple[str, ...] | None = key(
        _NAMES, "groups of instances that they are run on", None, shown="all"
    )
    time_limit_s: tuple[float, ...] | None = key(
        _LIMITS, "seconds of a run; each limit of a list", None, shown="that of the study"
    )
    certify: bool | None = key(
        Flag(), "whether to add the problem's own bound", None, shown="that of the study"
    )
    reference: bool | None = key(
        Flag(),
        "whether they are there to prove optima, and left out of plots of excess",
        None,
        shown=f'of "{ALL_SOLVERS}" those that prove optima, else none',
    )


@dataclass(frozen=True, kw_only=True)
class StudyTable:
    """The whole file."""

    format: str = key(Text((STUDY_FORMAT,)), "of the file")
    version: int = key(Integer(STUDY_VERSION, STUDY_VERSION), "of the format")
    name: str = key(Name(), "what it is called, and the folder of its results")
    problem: tuple[str, ...] = key(
        OneOrList(Text()), "whose instances are solved; several where all are of the library"
    )
    description: str = key(Line(), "what it is for", "")
    seeds: tuple[int, ...] | None = key(_SEEDS, "of the instances", None)
    time_limit_s: tuple[float, ...] | None = key(
        _LIMITS, "seconds of a run; each limit of a list", None
    )
    memory_limit_mib: float | None = key(
        Number(above=True), "MiB that a run may take beyond what it begins with", None
    )
    certify: bool = key(Flag(), "whether to add the problem's own bound to each result", False)
    headline: tuple[str, ...] = key(
        _NAMES, "solvers that the report begins with", (), shown="the problem's default"
    )
    instances: tuple[FilesTable | LibraryTable | Generated, ...] = key(
        ListOf(Instances()), "what is solved"
    )
    solvers: tuple[SolversTable, ...] = key(ListOf(Table(SolversTable)), "what solves it")
