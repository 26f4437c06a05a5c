"""Make the catalogue of an edition of the library from its plan.

A plan is a TOML file that people edit; ``instances/library/plans`` has all plans. It lists the
instances and the methods that grade them. Every instance is generated and hashed, and a small
instance is also written to a file. An existing catalogue never changes; the plan of a later edition
adds instances.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from lyra_opt.core.documents import (
    format_document,
    gzip_bytes,
    parse_toml,
    read_text,
    write_bytes,
    write_text,
)
from lyra_opt.core.errors import FieldError, UserError, in_file
from lyra_opt.core.fields import Table, key, parsed, written
from lyra_opt.core.loading import content_hash, instance_text, load_instance
from lyra_opt.core.numbers import DAY_S
from lyra_opt.core.problem import problem_of_instance
from lyra_opt.core.rules import Integer, Line, ListOf, Name, Named, OneOrList, OrNull, Seeds, Text
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.instances.family import find_family
from lyra_opt.instances.library.documents import (
    CATALOGUE_FORMAT,
    CATALOGUE_VERSION,
    Catalogue,
    Entry,
    FromFamily,
    FromSearch,
    FromText,
    FromTrace,
    Provenance,
)
from lyra_opt.instances.library.shelf import Library
from lyra_opt.instances.parameters import PARAMETER, option
from lyra_opt.instances.traces import locate
from lyra_opt.preemption import Instance as PreemptionInstance

PLAN_FORMAT, PLAN_VERSION = "lyra-opt/library-plan", 1
LARGEST_PLAN_BYTES = 2**20
MOST_SEEDS = 1_000

_FEATURES = key(Line(), "why the instances are hard or instructive")


@dataclass(frozen=True, kw_only=True)
class WrittenTable:
    """An instance that exists as a file."""

    id: str = key(Name(), "id of the instance; its file ID.json is in the folder of the library")
    source: str = key(Line(), "publication or person that the instance comes from")
    features: str = _FEATURES
    page: str = key(Name(), "page that describes the instance", "papers")


@dataclass(frozen=True, kw_only=True)
class FamilyTable:
    """Instances of a family: each combination of parameter values with each seed."""

    problem: str = key(Text(), "problem of the family")
    family: str = key(Name(), "family that generates the instances")
    seeds: tuple[int, ...] = key(Seeds(MOST_SEEDS), "seeds of the instances", (0,))
    parameters: Mapping[str, tuple[str | int, ...]] = key(
        Named(OneOrList(PARAMETER)), "parameters of the family, each a value or a list of values"
    )
    features: str = _FEATURES
    page: str | None = key(OrNull(Name(), "the family"), "page that describes the instances", None)


def points_of(table: "FamilyTable | SnapshotTable") -> Iterator[tuple[dict[str, str | int], int]]:
    """Yield parameters and seed of each instance of a table."""
    for values in product(*table.parameters.values()):
        for seed in table.seeds:
            yield dict(zip(table.parameters, values, strict=True)), seed


@dataclass(frozen=True, kw_only=True)
class SearchTable:
    """A smallest counterexample that a search finds."""

    id: str = key(Name(), "id of the instance")
    options: str = key(Line(), "options of lyra-opt counterexample")
    features: str = _FEATURES


@dataclass(frozen=True, kw_only=True)
class CaptureTable:
    """Decisions of a simulated cluster whose file names match a pattern.

    The largest decisions are taken, or those on which a heuristic is furthest from the optimum. The
    latter are of different days, because decisions soon after one another are alike.
    """

    folder: str = key(Name(), "folder for the captured decisions; an existing folder is reused")
    options: str = key(Line(), "options of lyra-opt simulate")
    files: str = key(Line(), "pattern of the files in the folder")
    most: int = key(Integer(1), "largest number of instances to take")
    prefix: str = key(Name(), "prefix of the ids")
    page: str | None = key(OrNull(Name(), "the prefix"), "page that describes the instances", None)
    misleads: str | None = key(
        OrNull(Text(), "the largest decisions"), "heuristic that must be far from the optimum", None
    )
    trace: str = key(Line(), "replayed trace, and where it is published")
    licence: str = key(Line(), "licence of the trace")
    window: str = key(Line(), "part of the trace that is replayed")
    scheme: str = key(Line(), "scheme of the simulated cluster")
    features: str = _FEATURES


@dataclass(frozen=True, kw_only=True)
class SnapshotTable:
    """Snapshots of a replayed trace; the library includes their files, but not the trace."""

    file: str = key(Line(), "trace file in the folder LYRA_OPT_TRACES")
    seeds: tuple[int, ...] = key(Seeds(MOST_SEEDS), "seeds of the moments")
    parameters: Mapping[str, tuple[str | int, ...]] = key(
        Named(OneOrList(PARAMETER)), "parameters of family snapshot, each a value or a list"
    )
    prefix: str = key(Name(), "name of the page that describes the instances")
    trace: str = key(Line(), "replayed trace, and where it is published")
    licence: str = key(Line(), "licence of the trace")
    features: str = _FEATURES


@dataclass(frozen=True, kw_only=True)
class MethodsTable:
    """The methods that grade the instances of a problem."""

    problem: str = key(Text(), "problem whose instances are graded")
    variants: tuple[str, ...] = key(ListOf(Text()), "variants of the problem")
    heuristics: tuple[str, ...] = key(
        ListOf(Text()), "heuristics; the first also runs with the own bound"
    )
    exact: tuple[str, ...] = key(ListOf(Text()), "exact solvers, with different engines")


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """A documentation page on one kind of instances."""

    name: str = key(Name(), "name of the page")
    title: str = key(Line(), "title of the page")
    about: str = key(Line(), "description of the instances")
    typical: str = key(Name(), "id of the instance that the page shows")


@dataclass(frozen=True, kw_only=True)
class LibraryPlan:
    """The content of a library plan, with one field per key of the TOML file."""

    format: str = key(Text((PLAN_FORMAT,)), "name of the file format")
    version: int = key(Integer(PLAN_VERSION, PLAN_VERSION), "version of the file format")
    name: str = key(Name(), "name of the edition")
    licence: str = key(Line(), "licence of instances whose provenance names no other")
    written: tuple[WrittenTable, ...] = key(
        ListOf(Table(WrittenTable), least=0), "instances from files", ()
    )
    families: tuple[FamilyTable, ...] = key(
        ListOf(Table(FamilyTable), least=0), "instances that families generate", ()
    )
    searches: tuple[SearchTable, ...] = key(
        ListOf(Table(SearchTable), least=0), "instances that searches find", ()
    )
    captures: tuple[CaptureTable, ...] = key(
        ListOf(Table(CaptureTable), least=0), "instances captured from simulations", ()
    )
    snapshots: tuple[SnapshotTable, ...] = key(
        ListOf(Table(SnapshotTable), least=0), "snapshots of replayed traces", ()
    )
    methods: tuple[MethodsTable, ...] = key(
        ListOf(Table(MethodsTable)), "methods that grade the instances"
    )
    pages: tuple[PageTable, ...] = key(
        ListOf(Table(PageTable), unique="name"), "documentation pages"
    )
    wording: Mapping[str, str] = key(
        Named(Line()), "sentences that pages show instead of features of the frozen catalogue"
    )
    without_certificate: Mapping[str, tuple[str, ...]] = key(
        Named(ListOf(Name())), "ids of proved instances without a certificate, by reason", {}
    )

    def methods_for(self, problem: str, variant: str) -> MethodsTable:
        """Return the methods for a variant; raise `FieldError` if the plan has no such entry."""
        for each in self.methods:
            if each.problem == problem and variant in each.variants:
                return each
        raise FieldError("methods", variant, f"must cover this variant of {problem}")


def read_plan(path: Path) -> LibraryPlan:
    """Read and validate a plan.

    Raises
    ------
    InputError
        If the plan breaks a rule; names file, field, value and rule.
    """
    text = read_text(path, LARGEST_PLAN_BYTES)
    with in_file(str(path)):
        return parsed(LibraryPlan, parse_toml(text, str(path), "a library plan"))


LARGEST_FILE_BYTES = 15 * 2**10
"""Largest size of an uncompressed file, and of a stored instance that a family can generate."""


@dataclass(frozen=True, slots=True)
class Collected:
    """An instance with its page, features and provenance for the catalogue."""

    instance: Any
    page: str
    features: str
    provenance: Provenance


def collect(plan: LibraryPlan, library: Path, work: Path) -> Iterator[Collected]:
    """Generate, load or search for each instance of a library plan, and yield it.

    Parameters
    ----------
    library
        Folder of the library, with the files of written instances.
    work
        Folder for the results of searches and simulations, which are reused if they exist.
    """
    for text in plan.written:
        instance = load_instance(library / f"{text.id}.json").instance
        yield Collected(instance, text.page, text.features, FromText(source=text.source))
    for search in plan.searches:
        file = work / "searches" / f"{search.id}.json"
        if not file.exists():
            _lyra_opt("counterexample", f"{search.options} --out {file}", file.parent)
        found = replace(load_instance(file).instance, name=search.id)
        made_by = FromSearch(made_by=f"lyra-opt counterexample {search.options}")
        yield Collected(found, "counterexamples", search.features, made_by)
    for capture in plan.captures:
        yield from _captured(capture, work / "captures")
    for snapshots in plan.snapshots:
        yield from _moments(snapshots)
    for block in plan.families:
        family = find_family(block.problem, block.family)
        for parameters, seed in points_of(block):
            provenance = FromFamily(
                family=family.name, version=family.version, seed=seed, parameters=parameters
            )
            instance = family.generate(parameters, seed)
            yield Collected(instance, block.page or family.name, block.features, provenance)


def _moments(table: SnapshotTable) -> Iterator[Collected]:
    family = find_family("reclaim", "snapshot")
    for parameters, seed in points_of(table):
        instance = family.generate({**parameters, "trace": locate(table.file)}, seed)
        options = "".join(f" {option(name)} {value}" for name, value in parameters.items())
        provenance = FromTrace(
            trace=table.trace,
            licence=table.licence,
            window=f"a moment of the replay of all days, drawn by seed {seed}",
            scheme=f"placement {parameters['placement']}, as of the family snapshot",
            made_by="lyra-opt generate reclaim --family snapshot "
            f"--trace {table.file}{options} --seed {seed} --out DIR",
            decision=f"{instance.name}.json",
        )
        yield Collected(instance, table.prefix, table.features, provenance)


def _captured(capture: CaptureTable, work: Path) -> Iterator[Collected]:
    folder = work / capture.folder
    if not folder.exists():
        _lyra_opt("simulate", f"{capture.options} --capture {folder}", work)
    loaded = [(path, load_instance(path).instance) for path in sorted(folder.glob(capture.files))]
    if not loaded:
        raise UserError(f"{folder}: no file matches {capture.files}")
    loaded.sort(key=lambda each: -_jobs(each[1]))
    if capture.misleads is not None:
        loaded = _misleading(loaded, capture.misleads)
    for path, instance in sorted(loaded[: capture.most], key=lambda each: each[0]):
        kind, _, moment = path.name.removesuffix(".json").split("-", 2)
        provenance = FromTrace(
            trace=capture.trace,
            licence=capture.licence,
            window=capture.window,
            scheme=capture.scheme,
            made_by=f"lyra-opt simulate {capture.options} --capture DIR",
            decision=path.name,
        )
        named = replace(instance, name=f"{capture.prefix}-{kind}-{moment}")
        yield Collected(named, capture.page or capture.prefix, capture.features, provenance)


def _misleading(loaded: Sequence[tuple[Path, Any]], heuristic: str) -> list[tuple[Path, Any]]:
    """Return the decision of each day on which a heuristic is furthest above the optimum.

    The furthest come first, and of equally far ones the first in `loaded`.
    """
    excess = {}
    for path, instance in loaded:
        problem = problem_of_instance(instance)
        found, least = (
            solve_and_check(problem, instance, find_solver(problem.name, name)).objective
            for name in (heuristic, "exact")
        )
        assert found is not None, "a decision to reclaim always has a solution"
        assert least is not None, "a decision to reclaim always has a solution"
        excess[path] = found - least
    furthest: dict[int, tuple[Path, Any]] = {}
    for each in sorted(loaded, key=lambda each: -excess[each[0]]):
        (moment_s,) = re.findall(r"-at-(\d+)-s", each[0].name)
        furthest.setdefault(int(moment_s) // DAY_S, each)
    return list(furthest.values())


def _jobs(instance: Any) -> int:
    """Return the number of jobs of a captured instance; a preemption instance calls them gangs."""
    return len(instance.gangs if isinstance(instance, PreemptionInstance) else instance.jobs)


def _lyra_opt(command: str, options: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [sys.executable, "-m", "lyra_opt", command, *shlex.split(options)]
    if subprocess.run(arguments, check=False).returncode != 0:  # noqa: S603 - our own command
        raise UserError(f"the command lyra-opt {command} {options} failed")


def write_catalogue(plan: LibraryPlan, library: Path, work: Path) -> Path:
    """Write the catalogue of a plan and the files of its small instances; return its path.

    Raises
    ------
    UserError
        If an existing catalogue would change, or two instances have the same id, be it in
        different editions.
    """
    target = library / "catalogues" / f"{plan.name}.json"
    catalogues = Library(library).catalogues
    taken = {old.id for each in catalogues if each.name != plan.name for old in each.instances}
    entries, files = [], {}
    for each in collect(plan, library, work):
        entry, data = _entry(each)
        if entry.id in taken:
            raise UserError(f"{entry.id}: another edition has an instance with this id")
        entries.append(entry)
        if data is not None and entry.file is not None:
            files[library / entry.file] = data
    document = written(
        Catalogue(
            format=CATALOGUE_FORMAT,
            version=CATALOGUE_VERSION,
            name=plan.name,
            licence=plan.licence,
            instances=tuple(entries),
        )
    )
    text = format_document(document)
    if target.exists() and target.read_text(encoding="utf-8") != text:
        raise UserError(
            f"{target}: must not change; put new instances into a plan of a new edition"
        )
    for path, data in files.items():
        write_bytes(path, data)
    write_text(target, text)
    return target


def _entry(each: Collected) -> tuple[Entry, bytes | None]:
    """Return the catalogue entry of an instance, and the content of its file if it needs one."""
    instance, problem = each.instance, problem_of_instance(each.instance)
    data = instance_text(problem, instance).encode()
    is_small = len(data) <= LARGEST_FILE_BYTES
    name = None
    if is_small:
        name = f"{instance.name}.json"
    elif not isinstance(each.provenance, FromFamily):
        name, data = f"{instance.name}.json.gz", gzip_bytes(data)
    is_there = isinstance(each.provenance, FromText)
    return Entry(
        id=instance.name,
        problem=problem.name,
        variant=str(instance.variant),
        size=problem.size(instance),
        page=each.page,
        file=name,
        sha256=content_hash(problem, instance),
        features=each.features,
        provenance=each.provenance,
    ), (None if is_there else data)
