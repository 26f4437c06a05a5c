"""The plan of a version of the library: a TOML file that people edit.

``instances/library/plans`` holds them. A plan says which instances there are, and which methods are
asked to grade them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from lyra_opt.core.documents import parse_toml, read_text
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.fields import Table, key, parsed
from lyra_opt.core.rules import Integer, Line, ListOf, Name, Named, OneOrList, Seeds, Text
from lyra_opt.instances.parameters import PARAMETER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PLAN_FORMAT, PLAN_VERSION = "lyra-opt/library-plan", 1
LARGEST_PLAN_BYTES = 2**20
MOST_SEEDS = 1_000

_FEATURES = key(Line(), "what makes the instances hard, or telling")


@dataclass(frozen=True, kw_only=True)
class WrittenTable:
    """An instance that is there as a file."""

    id: str = key(Name(), "of the instance, whose file ID.json is in the library's folder")
    source: str = key(Line(), "who wrote it down, and where")
    features: str = _FEATURES


@dataclass(frozen=True, kw_only=True)
class FamilyTable:
    """Instances of a family: each combination of the values of parameters, with each seed."""

    problem: str = key(Text(), "of the family")
    family: str = key(Name(), "that generates them")
    seeds: tuple[int, ...] = key(Seeds(MOST_SEEDS), "of the instances", (0,))
    parameters: Mapping[str, tuple[str | int, ...]] = key(
        Named(OneOrList(PARAMETER)), "of the family, each a value or a list of them"
    )
    features: str = _FEATURES


def points_of(table: FamilyTable | SnapshotTable) -> Iterator[tuple[dict[str, str | int], int]]:
    """Yield parameters and seed of each instance of a table."""
    for values in product(*table.parameters.values()):
        for seed in table.seeds:
            yield dict(zip(table.parameters, values, strict=True)), seed


@dataclass(frozen=True, kw_only=True)
class SearchTable:
    """A smallest counterexample."""

    id: str = key(Name(), "of the instance")
    options: str = key(Line(), "of lyra-opt counterexample")
    features: str = _FEATURES


@dataclass(frozen=True, kw_only=True)
class CaptureTable:
    """Decisions of a simulated cluster: the largest of those whose files a pattern fits."""

    folder: str = key(Name(), "in which the simulation leaves its decisions, made once")
    options: str = key(Line(), "of lyra-opt simulate")
    files: str = key(Line(), "pattern of the files in the folder")
    most: int = key(Integer(1), "instances that are taken of them")
    prefix: str = key(Name(), "with which their ids begin, and page that describes them")
    trace: str = key(Line(), "that is replayed, and where it is published")
    licence: str = key(Line(), "of the trace")
    window: str = key(Line(), "part of the trace that is replayed")
    scheme: str = key(Line(), "that runs the cluster")
    features: str = _FEATURES


@dataclass(frozen=True, kw_only=True)
class SnapshotTable:
    """What runs at moments of the replay of a trace; they come along, for the trace does not."""

    file: str = key(Line(), "of the trace, in the folder of LYRA_OPT_TRACES")
    seeds: tuple[int, ...] = key(Seeds(MOST_SEEDS), "of the moments")
    parameters: Mapping[str, tuple[str | int, ...]] = key(
        Named(OneOrList(PARAMETER)), "of the family snapshot, each a value or a list of them"
    )
    prefix: str = key(Name(), "page that describes them")
    trace: str = key(Line(), "that is replayed, and where it is published")
    licence: str = key(Line(), "of the trace")
    features: str = _FEATURES


@dataclass(frozen=True, kw_only=True)
class MethodsTable:
    """Who is asked about the instances of a problem."""

    problem: str = key(Text(), "whose instances they are asked about")
    variants: tuple[str, ...] = key(ListOf(Text()), "of the problem")
    heuristics: tuple[str, ...] = key(ListOf(Text()), "solvers, the first beside the own bound")
    exact: tuple[str, ...] = key(ListOf(Text()), "solvers that prove, of different engines")


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """A page of the documentation on one kind of instances."""

    name: str = key(Name(), "of the page: of a family, or the prefix of captured decisions")
    title: str = key(Line(), "of the page")
    about: str = key(Line(), "what the instances are")
    typical: str = key(Name(), "id of the instance that is drawn")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The whole file."""

    format: str = key(Text((PLAN_FORMAT,)), "of the file")
    version: int = key(Integer(PLAN_VERSION, PLAN_VERSION), "of the format")
    name: str = key(Name(), "of the version of the library")
    licence: str = key(Line(), "of the instances, but for what their provenance says")
    written: tuple[WrittenTable, ...] = key(ListOf(Table(WrittenTable), least=0), "as files", ())
    families: tuple[FamilyTable, ...] = key(
        ListOf(Table(FamilyTable), least=0), "that families generate", ()
    )
    searches: tuple[SearchTable, ...] = key(
        ListOf(Table(SearchTable), least=0), "that searches find", ()
    )
    captures: tuple[CaptureTable, ...] = key(
        ListOf(Table(CaptureTable), least=0), "that simulations meet", ()
    )
    snapshots: tuple[SnapshotTable, ...] = key(
        ListOf(Table(SnapshotTable), least=0), "that are moments of replays", ()
    )
    methods: tuple[MethodsTable, ...] = key(ListOf(Table(MethodsTable)), "that grade them")
    pages: tuple[PageTable, ...] = key(ListOf(Table(PageTable), unique="name"), "that tell of them")

    def methods_for(self, problem: str, variant: str) -> MethodsTable:
        """Return who is asked about a variant; `FieldError` if nobody is."""
        for each in self.methods:
            if each.problem == problem and variant in each.variants:
                return each
        raise FieldError("methods", variant, f"are missing for this variant of {problem}")


def read_plan(path: Path) -> Plan:
    """Read and validate a plan.

    Raises
    ------
    InputError
        Naming file, field, value and rule.
    """
    text = read_text(path, LARGEST_PLAN_BYTES)
    try:
        return parsed(Plan, parse_toml(text, str(path), "a plan of the library"))
    except FieldError as error:
        raise InputError(str(path), str(error)) from None
