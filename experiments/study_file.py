"""The keys of a study file, which ``lyra-opt study --keys`` lists."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

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

STUDY_FORMAT = "lyra-opt/study"
STUDY_VERSION = 2
LARGEST_STUDY_RUNS = 1_000_000

Parameter = str | int

ALL_SOLVERS = "*"
"""Stands for all registered solvers in a list of names."""

RESERVED = {"seed": "must be given as seeds", "trace": "must be given on the command line"}
"""Parameters of families that a block of instances cannot set, each with the reason."""

_NAMES = ListOf(Text(), distinct=True)
_SEEDS = Seeds(LARGEST_STUDY_RUNS)
_LIMITS = OneOrList(Number(above=True))
_GROUP = key(Line(), "name of the group under which the report summarises the instances", "")


_VALUES = OneOrList(PARAMETER)


@dataclass(frozen=True, kw_only=True)
class FamiliesTable:
    """A block of instances that families generate."""

    group: str = _GROUP
    families: tuple[str, ...] = key(
        _NAMES,
        'families that generate the instances, see "lyra-opt generate"; all other keys are '
        "parameters of the families. A parameter with a list of values is an axis of the study: "
        "each value is used, and tables have a column for the axis",
    )
    seeds: tuple[int, ...] | None = key(
        _SEEDS,
        "seeds of the instances; a family without randomness uses only the first seed",
        None,
        shown="those of the study",
    )


@dataclass(frozen=True, kw_only=True)
class FilesTable:
    """A block of instances that are read from files."""

    group: str = _GROUP
    files: tuple[str, ...] = key(
        _NAMES, "instance files or patterns, relative to the folder of the study file"
    )
    made_by: str = key(Line(), "command that makes the files, shown if they are missing", "")


@dataclass(frozen=True, kw_only=True)
class LibraryTable:
    """A block of instances from the library, grouped by problem."""

    library: str = key(
        Name(), "edition of the library, which has the instances of all earlier editions too"
    )
    grades: tuple[Grade, ...] | None = key(
        ListOf(Choice(Grade), distinct=True), "only instances of these grades", None, shown="all"
    )
    ids: tuple[str, ...] | None = key(_NAMES, "only instances with these ids", None, shown="all")
    largest_size: int | None = key(
        Integer(1), "only instances with at most this number of servers or jobs", None, shown="any"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A block of generated instances with the parameters of its families.

    Parameters
    ----------
    table
        The keys that all blocks of this kind have.
    parameters
        The values of each other key, by name.
    axes
        Names of the parameters that are lists: instances are generated with each entry, and tables
        have a column for it.
    """

    table: FamiliesTable
    parameters: Mapping[str, tuple[Parameter, ...]]
    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Instances(Rule):
    """The rule for a block of instances."""

    tables = (FamiliesTable, FilesTable, LibraryTable)

    def check(self, path: str, value: object) -> FilesTable | LibraryTable | Generated:
        """Validate and return a block of instances; other keys are parameters of its families."""
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
        """Return the JSON schema that allows any of the three kinds of blocks."""
        generated = schema_of(FamiliesTable) | {"additionalProperties": _VALUES.schema()}
        return {"anyOf": [schema_of(FilesTable), schema_of(LibraryTable), generated]}

    def in_words(self) -> str:
        """Return the rule in words."""
        return "table with families, with files, or with a library"


@dataclass(frozen=True, kw_only=True)
class SolversTable:
    """A block of solvers with common settings."""

    names: tuple[str, ...] = key(
        _NAMES,
        'solvers, see "lyra-opt solvers"; my_file.py:NAME is a solver in your own file, in the '
        f'folder of the study; "{ALL_SOLVERS}" means all registered solvers',
    )
    groups: tuple[str, ...] | None = key(
        _NAMES, "groups of instances on which the solvers run", None, shown="all"
    )
    time_limit_s: tuple[float, ...] | None = key(
        _LIMITS,
        "time limit in seconds, or a list of limits to use",
        None,
        shown="that of the study",
    )
    certify: bool | None = key(
        Flag(), "whether to compute the problem's own bound", None, shown="that of the study"
    )
    reference: bool | None = key(
        Flag(),
        "whether the solvers run only to prove optima and are left out of plots of excess",
        None,
        shown=f'true for solvers of "{ALL_SOLVERS}" that prove optima, else false',
    )


@dataclass(frozen=True, kw_only=True)
class StudyTable:
    """The keys of a study file."""

    format: str = key(Text((STUDY_FORMAT,)), "name of the file format")
    version: int = key(Integer(STUDY_VERSION, STUDY_VERSION), "version of the file format")
    name: str = key(Name(), "name of the study and of the folder with its results")
    problem: tuple[str, ...] = key(
        OneOrList(Text()),
        "problem whose instances are solved; may be a list if all instances are from the library",
    )
    description: str = key(Line(), "purpose of the study", "")
    seeds: tuple[int, ...] | None = key(_SEEDS, "seeds of the generated instances", None)
    time_limit_s: tuple[float, ...] | None = key(
        _LIMITS, "time limit in seconds, or a list of limits to use", None
    )
    memory_limit_mib: float | None = key(
        Number(above=True), "MiB that a solver may use on top of the memory at its start", None
    )
    certify: bool = key(Flag(), "whether to compute the problem's own bound for each result", False)
    headline: tuple[str, ...] = key(
        _NAMES, "solvers named first in the report", (), shown="the problem's default"
    )
    instances: tuple[FilesTable | LibraryTable | Generated, ...] = key(
        ListOf(Instances()), "blocks of instances to solve"
    )
    solvers: tuple[SolversTable, ...] = key(ListOf(Table(SolversTable)), "blocks of solvers to run")
