"""Scenario files: what is simulated, on what, and under which assumptions, as TOML.

``lyra-opt scenarios keys`` lists every key; ``experiments/scenarios`` holds those with names.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import join_path, parse_toml
from lyra_opt.core.errors import FieldError, InputError, UserError
from lyra_opt.core.fields import Settings, Table, key, parsed, rule_at, with_change
from lyra_opt.core.own_files import name_in
from lyra_opt.core.rules import (
    Anything,
    Flag,
    Integer,
    Line,
    ListOf,
    Name,
    Named,
    Number,
    Rule,
    Seeds,
    Text,
)
from lyra_opt.core.stand_ins import stand_in
from lyra_opt.experiments.sent_once import SentOnce
from lyra_opt.experiments.simulation.cases import with_case
from lyra_opt.experiments.simulation.given import Given, SchemeEntry
from lyra_opt.experiments.simulation.sources import require_no_stream, scenario_text
from lyra_opt.instances.heterogeneous.gpu_types import gpu_types
from lyra_opt.instances.workloads.assumptions import JobAssumptions
from lyra_opt.network.links import LARGEST_LATENCY_S
from lyra_opt.simulation.policies.composed import SCALING_INTERVAL_S
from lyra_opt.simulation.speed import MIXED_EFFICIENCY
from lyra_opt.simulation.tenure import TENURES, Epochs, Forever, Leases, Rounds

if TYPE_CHECKING:
    from lyra_opt.simulation.cluster import GpuType

SCENARIO_FORMAT = "lyra-opt/scenario"
SCENARIO_VERSION = 1

NAMELESS = {"format": SCENARIO_FORMAT, "version": SCENARIO_VERSION, "name": "scenario"}
"""What a scenario that is no file need not say."""

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

CHANGED = "# run with "
"""Begins a line of a scenario's text that says what is other than in the file."""

LARGEST_CLUSTER = 1_000_000
LARGEST_SERVER = 1024
MOST_DAYS = 1000
MOST_SEEDS = 10_000
MOST_COMBINATIONS = 10_000

DEFAULT_FORECASTER = "autoregressive"
"""Of those that do not know the future the one with the least error on the generated demand."""

DEFAULT_HEADROOM = 0.02
NO_AXES = ("format", "version", "name", "description", "seeds", "axes", "cases", "schemes")
"""Keys that no axis varies: what a scenario is, and what is a list by itself."""

CASE = "case"
"""What results call the axis of cases."""

POINTS = ("axes", "cases")
"""Keys that a variant of a scenario has no more."""

DECISION_KINDS = ("reclaim", "allocation", "heterogeneous", "network")
"""The problems whose instances can be captured."""


@dataclass(frozen=True, slots=True)
class _GpuTypes(Rule):
    """Types of GPUs by name, beside those of the toolkit."""

    def check(self, path: str, value: object) -> Mapping[str, GpuType]:
        if not isinstance(value, dict):
            raise FieldError(path, value, "must be a table")
        return gpu_types(value, field=path)

    def schema(self) -> dict[str, Any]:
        keys = {
            "relative_speed": {"anyOf": [Number(above=True).schema(), Text().schema()]},
            "price_per_hour": Number(above=True).schema(),
            "source": Text().schema(),
        }
        entry = {"type": "object", "additionalProperties": False, "properties": keys}
        return {"type": "object", "additionalProperties": entry}

    def in_words(self) -> str:
        return "tables with relative_speed, price_per_hour and source by name"


@dataclass(frozen=True, kw_only=True)
class GroupTable:
    """Servers that are alike."""

    servers: int = key(Integer(1, LARGEST_CLUSTER), "how many")
    gpus_per_server: int = key(Integer(1, LARGEST_SERVER), "GPUs of each", 8)
    gpu_type: str = key(Text(), "what its GPUs are")


@dataclass(frozen=True, kw_only=True)
class LoansTable:
    """Servers of an inference cluster that training jobs may borrow."""

    servers: int | None = key(
        Integer(0, LARGEST_CLUSTER),
        "inference servers",
        None,
        shown="520 for each 443 x 8 training GPUs, as in Lyra",
    )
    gpus_per_server: int = key(Integer(1, LARGEST_SERVER), "GPUs of each", 8)
    gpu_type: str | None = key(
        Text(), "what its GPUs are", None, shown="T4, three of which do what a V100 does"
    )
    usage: str | None = key(
        Text(),
        "series of GPU usage (CSV: time, total_gpu_num, running_gpu_num) that stands for inference "
        "demand, from the first submission on and over again where it ends",
        None,
        shown="generated, like that of Lyra's inference cluster",
    )
    day_s: float = key(
        Number(above=True),
        "seconds within which a day of generated demand passes, for a testbed whose day is short",
        86_400.0,
    )
    forecaster: str = key(
        Text(),
        "how loans foresee inference demand: oracle, last-value, seasonal or autoregressive",
        DEFAULT_FORECASTER,
    )
    headroom: float = key(
        Number(0, 1), "share of the inference cluster that is never lent", DEFAULT_HEADROOM
    )

    def __post_init__(self) -> None:
        if self.usage is not None and self.day_s != 86_400:
            raise FieldError("day_s", self.day_s, "must not stand beside usage, which is measured")


@dataclass(frozen=True, kw_only=True)
class NetworkTable:
    """Across which gangs compute the slower the farther apart they are."""

    topology: str | None = key(
        Text(),
        "TOML file with racks, machines and GPUs, in place of cluster.servers",
        None,
        shown="racks of cluster.servers_per_rack",
    )
    links: str | None = key(
        Text(),
        "links by name: shipped, congested-1 to congested-3, or free, which cost nothing",
        None,
        shown="those of the topology, else shipped",
    )
    overlap: float = key(
        Number(0, 1),
        "share of an iteration's computing behind which communication can hide",
        0.0,
    )
    machine_latency_s: float | None = key(
        Number(0, LARGEST_LATENCY_S), "of a hop between GPUs of a machine", None, shown="the links'"
    )
    rack_latency_s: float | None = key(
        Number(0, LARGEST_LATENCY_S),
        "of a hop between machines of a rack",
        None,
        shown="the links'",
    )
    network_latency_s: float | None = key(
        Number(0, LARGEST_LATENCY_S), "of a hop between racks", None, shown="the links'"
    )
    slowdowns: str | None = key(
        Text(),
        "measured slowdowns in place of links (CSV: model, gpus, tier, slowdown), for each model "
        "and gang of several GPUs at each tier that it can span",
        None,
    )

    def __post_init__(self) -> None:
        if self.slowdowns is not None:
            links = {"links": self.links, "overlap": self.overlap or None, **self.latency_s}
            for name, value in links.items():
                if value is not None:
                    rule = "must not stand beside slowdowns, which take the place of links"
                    raise FieldError(name, value, rule)

    @property
    def latency_s(self) -> dict[str, float | None]:
        """The latencies that are other than those of the links, by key."""
        return {
            "machine_latency_s": self.machine_latency_s,
            "rack_latency_s": self.rack_latency_s,
            "network_latency_s": self.network_latency_s,
        }


@dataclass(frozen=True, kw_only=True)
class ClusterTable:
    """Where jobs run."""

    name: str | None = key(Text(), "what it is called in results", None, shown="by its servers")
    like: str | None = key(Text(), 'a cluster by name, see "lyra-opt scenarios parts"', None)
    servers: int | None = key(Integer(1, LARGEST_CLUSTER), "training servers, all alike", None)
    gpus_per_server: int = key(Integer(1, LARGEST_SERVER), "GPUs of each training server", 8)
    gpu_type: str | None = key(
        Text(), "what the GPUs of training servers are", None, shown="V100, the reference"
    )
    groups: tuple[GroupTable, ...] = key(
        ListOf(Table(GroupTable)),
        "servers of several kinds in place of servers, the fastest first",
        (),
    )
    servers_per_rack: int | None = key(
        Integer(1, LARGEST_CLUSTER),
        "servers of a rack; they cost speed only with a network, but jobs.csv.gz says how many "
        "each job spanned",
        None,
        shown="racks do not matter",
    )
    loans: LoansTable | None = key(Table(LoansTable), "servers that can be borrowed", None)
    network: NetworkTable | None = key(Table(NetworkTable), "what distance costs", None)

    def __post_init__(self) -> None:
        topology = None if self.network is None else self.network.topology
        given = {
            "servers": self.servers,
            "like": self.like,
            "groups": list(self.groups) or None,
            "network.topology": topology,
        }
        said = [name for name, value in given.items() if value is not None]
        if len(said) > 1:
            rule = f"must not stand beside {said[0]}: each says which servers there are"
            raise FieldError(said[1], given[said[1]], rule)
        if not said:
            raise FieldError("", {}, f"must say which servers there are: one of {_listed(given)}")
        if self.network is not None and topology is None and self.servers_per_rack is None:
            raise FieldError("servers_per_rack", None, "must be there for a network of racks")
        if self.servers_per_rack is not None and topology is not None:
            rule = "must not stand beside network.topology, which has racks of its own"
            raise FieldError("servers_per_rack", self.servers_per_rack, rule)


@dataclass(frozen=True, kw_only=True)
class BootstrapTable:
    """Days drawn with replacement."""

    days: int = key(Integer(1, MOST_DAYS), "how many")
    draw: int = key(Integer(), "which of the traces that can be drawn", 0)


@dataclass(frozen=True, kw_only=True)
class JobsTable:
    """What is submitted."""

    trace: str | None = key(
        Text(),
        "job trace, plain or gzip; looked for beside the scenario, as given, and in the folder "
        "that the variable LYRA_OPT_TRACES names",
        None,
    )
    workload: str | None = key(
        Text(), 'generated jobs in its place, see "lyra-opt scenarios parts"', None
    )
    parameters: Mapping[str, Any] = key(
        Named(Anything()), "what the generator takes, such as jobs or days", {}
    )
    vc: str | None = key(Text(), "only jobs of this virtual cluster of a trace", None)
    days: int | None = key(
        Integer(1, MOST_DAYS), "only jobs submitted in the first days of a trace", None
    )
    count: int | None = key(Integer(1), "only the first jobs of a trace", None)
    sample: int | None = key(
        Integer(1),
        "only so many jobs from all over a trace, at even distances; where oversized jobs are "
        "dropped, of those that fit",
        None,
    )
    load: float | None = key(
        Number(above=True),
        "GPU time asked for, as a share of what own GPUs have from the first submission to the "
        "last; submissions are moved together or apart",
        None,
        shown="that of the jobs",
    )
    bootstrap: BootstrapTable | None = key(
        Table(BootstrapTable), "days drawn with replacement from those of the jobs", None
    )
    layout: str | None = key(
        Text(),
        'the layout of the trace by name, see "lyra-opt scenarios parts"',
        None,
        shown="by the content of the file",
    )
    bad_rows: str = key(
        Text(("refuse", "drop")),
        "what to do with rows of a trace that have a value that breaks its rule",
        "refuse",
    )
    measured_on: str | None = key(
        Text(),
        "the GPU type on which the running times of a trace were measured",
        None,
        shown="that of the layout, or the only type that a job asks for, or the reference",
    )
    oversized: str = key(
        Text(("refuse", "drop")),
        "what to do with jobs that are too large for the cluster, or for a scheme",
        "refuse",
    )
    assumptions: JobAssumptions | None = key(
        Settings(JobAssumptions),
        "who is elastic, fungible and so on, drawn by seed, which no public trace says",
        None,
    )

    def __post_init__(self) -> None:
        if self.trace is not None and self.workload is not None:
            raise FieldError("workload", self.workload, "must not stand beside trace")
        if self.workload is None and self.parameters:
            rule = "must not stand there without workload"
            raise FieldError("parameters", dict(self.parameters), rule)
        if self.workload is not None:
            for name in ("vc", "days", "count", "sample", "layout", "measured_on"):
                if getattr(self, name) is not None:
                    rule = "is for a trace; a generated workload has parameters"
                    raise FieldError(name, getattr(self, name), rule)


@dataclass(frozen=True, kw_only=True)
class SpeedTable:
    """How fast jobs run."""

    throughputs: str | None = key(
        Text(),
        "table of measured throughputs by model and type of GPU: gavel, or a CSV file",
        None,
        shown="gavel where own GPUs are unlike and there is no network, else none",
    )
    mixed_efficiency: float = key(
        Number(0, 1, above=True),
        "throughput of a job on own and borrowed GPUs at once, as a share of the ideal",
        MIXED_EFFICIENCY,
    )


@dataclass(frozen=True, kw_only=True)
class TenureTable:
    """For how long jobs keep their GPUs, and what it costs to give them back."""

    all: str | None = key(Text(TENURES), "tenure of all schemes", None, shown="that of each scheme")
    scaling_interval_s: float = key(
        Number(),
        "least time between two resizings of elastic jobs; 0 resizes at every event",
        SCALING_INTERVAL_S,
    )
    forever: Forever = key(Settings(Forever), "until they complete or are preempted", Forever())
    leases: Leases = key(Settings(Leases), "for leases", Leases())
    rounds: Rounds = key(Settings(Rounds), "for rounds that end together", Rounds())
    epochs: Epochs = key(Settings(Epochs), "for epochs, as Pollux has them", Epochs())


@dataclass(frozen=True, kw_only=True)
class CaptureTable:
    """Which decisions are kept where a folder for them is given."""

    most: int = key(Integer(1), "contested decisions of each kind and scheme, and easy ones", 50)
    kinds: tuple[str, ...] = key(ListOf(Text(DECISION_KINDS)), "problems", DECISION_KINDS)


@dataclass(frozen=True, slots=True)
class _Scheme(Rule):
    """A name, or a table with a name and what is other than the scheme has it."""

    def check(self, path: str, value: object) -> SchemeEntry:
        if isinstance(value, str):
            return SchemeEntry(name=Line().check(path, value), label=name_in(value))
        if not isinstance(value, dict) or "name" not in value:
            raise FieldError(path, value, "must be a name, or a table with a name")
        rules: dict[str, Rule] = {"name": Line(), "label": Line(), "tenure": Text(TENURES)}
        own = {
            name: rule.check(join_path(path, name), value[name])
            for name, rule in rules.items()
            if name in value
        }
        parameters = tuple(
            (name, Anything().check(path, each)) for name, each in value.items() if name not in own
        )
        tenure = own.get("tenure")
        changed = [f"{name}={_shown(each)}" for name, each in parameters]
        changed += [] if tenure is None else [f"tenure={tenure}"]
        return SchemeEntry(
            name=own["name"],
            label=own.get("label", " ".join([name_in(own["name"]), *changed])),
            tenure=tenure,
            parameters=parameters,
        )

    def schema(self) -> dict[str, Any]:
        table = {
            "type": "object",
            "properties": {
                "name": Line().schema(),
                "label": Line().schema(),
                "tenure": Text(TENURES).schema(),
            },
            "required": ["name"],
        }
        return {"anyOf": [Text().schema(), table]}

    def in_words(self) -> str:
        return "name, or table with name, label, tenure and what is other than the scheme has it"


def scheme_entry(table: Mapping[str, Any]) -> SchemeEntry:
    """Return a scheme as a scenario names it, but that classes and objects can stand for names.

    Raises
    ------
    UserError
        If it is none; of a table, names the key.
    """
    from lyra_opt.simulation.scheme import scheme_of

    said = {str(name): value if is_own(value) else plain(value) for name, value in table.items()}
    own = scheme_of(said["name"]) if is_own(said.get("name", "")) else None
    named = said if own is None else said | {"name": own.name}
    return replace(_Scheme().check("schemes", named), own=own)


@dataclass(frozen=True, kw_only=True)
class ScenarioTable:
    """The whole file."""

    format: str = key(Text((SCENARIO_FORMAT,)), "of the file")
    version: int = key(Integer(SCENARIO_VERSION, SCENARIO_VERSION), "of the format")
    name: str = key(Name(), "what it is called in results")
    description: str = key(Text(), "what it is for", "")
    seeds: tuple[int, ...] = key(Seeds(MOST_SEEDS), "of all that is drawn; a replay for each", (0,))
    axes: Mapping[str, tuple[Any, ...]] = key(
        Named(ListOf(Anything())),
        "keys of this file with the values that each takes in turn, such as "
        '"cluster.loans.servers" = [0, 70, 140]; all combinations are replayed',
        {},
    )
    cases: tuple[str, ...] = key(
        ListOf(Text()),
        "scenarios that are replayed in turn: their cluster, gpu_types, jobs, speed and tenure, "
        "but for keys that this file has; one whose trace is not there is left out, and named",
        (),
    )
    schemes: tuple[SchemeEntry, ...] = key(
        ListOf(_Scheme()), 'how the cluster is run, see "lyra-opt schemes"'
    )
    cluster: ClusterTable = key(Table(ClusterTable), "where jobs run")
    gpu_types: Mapping[str, GpuType] = key(
        _GpuTypes(),
        "types of GPUs of your own, or otherwise than bundled: work done while a V100 does 1 (a "
        'number, or a ratio such as "1555/900") where no throughput table measured it, and price',
        gpu_types(),
        shown="those that come along",
    )
    jobs: JobsTable = key(Table(JobsTable), "what is submitted", JobsTable())
    speed: SpeedTable = key(Table(SpeedTable), "how fast jobs run", SpeedTable())
    tenure: TenureTable = key(Table(TenureTable), "for how long", TenureTable())
    capture: CaptureTable = key(Table(CaptureTable), "which decisions are kept", CaptureTable())
    bounds: bool = key(
        Flag(),
        "whether to prove what no schedule can beat: mean JCT and queuing and, without loans, the "
        "makespan of measured jobs on unlike GPUs and of gangs in a network",
        False,
    )

    def __post_init__(self) -> None:
        for path, values in self.axes.items():
            if path.partition(".")[0] in NO_AXES:
                rule = f"must not be an axis, as nothing of {', '.join(NO_AXES)} is"
                raise FieldError(join_path("axes", path), list(values), rule)
            for other in self.axes:
                if other.startswith(f"{path}."):  # the later one would undo the other
                    rule = f"must not hold {other}, which is an axis too"
                    raise FieldError(join_path("axes", path), list(values), rule)
            shown = [str(value) for value in values]  # as in the keys of runs
            if len(set(shown)) < len(shown):
                rule = "must not have one value twice"
                raise FieldError(join_path("axes", path), list(values), rule)
        if len(set(self.cases)) < len(self.cases):
            raise FieldError("cases", list(self.cases), "must not have one twice")
        combinations = math.prod(map(len, self.axes.values())) * max(1, len(self.cases))
        if combinations > MOST_COMBINATIONS:
            rule = f"must have at most {MOST_COMBINATIONS:,} combinations, not {combinations:,}"
            raise FieldError("axes", dict(self.axes), rule)
        labels = [entry.label for entry in self.schemes]
        for label in labels:
            if labels.count(label) > 1:
                raise FieldError("schemes", label, "must not occur twice; give one a label")


@dataclass(frozen=True, kw_only=True, eq=False)
class Scenario(SentOnce):
    """A scenario that has been read; equal to one of the same source that says the same.

    Parameters
    ----------
    source
        Where it is from, for errors.
    folder
        That of the file, in which files are looked for that it names.
    text
        The file, word for word, below a comment for each change.
    document
        What it says, changes included, as plain tables.
    table
        The same, checked.
    given
        Objects in place of what it names.
    """

    source: str
    folder: Path
    text: str
    document: Mapping[str, Any]
    table: ScenarioTable
    given: Given = field(default_factory=Given)

    @property
    def description(self) -> str:
        """What it is for, and what is other than in the file."""
        changes = [
            line.removeprefix(CHANGED)
            for line in self.text.splitlines()
            if line.startswith(CHANGED)
        ]
        changed = f"Here with {'; '.join(reversed(changes))}." if changes else ""
        return " ".join(filter(None, (self.table.description, changed)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scenario):
            return NotImplemented
        same = (self.source, self.meaning_hash) == (other.source, other.meaning_hash)
        return same and self.given.schemes == other.given.schemes

    def __hash__(self) -> int:
        return hash((self.source, self.meaning_hash))

    @cached_property
    def meaning_hash(self) -> str:
        """SHA-256 of what it says; comments, layout and description do not count.

        Of files that it names and of objects it is that of all that is in them.
        """
        meaning = self._meaning
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), default=str)
        files = "".join(map(_sha256_of, self._files(meaning)))
        return hashlib.sha256(f"{text}{files}{self.given.meaning}".encode()).hexdigest()

    @cached_property
    def _meaning(self) -> dict[str, Any]:
        """What it says, its cases included."""
        meaning = {name: value for name, value in self.document.items() if name != "description"}
        cases = {name: with_case(self.document, name) for name in self.table.cases}
        return meaning | ({"cases": cases} if cases else {})

    @cached_property
    def files(self) -> list[Path]:
        """The files that it names, and those of its cases, as far as they exist."""
        return list(dict.fromkeys(self._files(self._meaning)))

    def _files(self, value: object) -> Iterator[Path]:
        """Yield the files that a part of the document names, in its order, as far as they exist."""
        if isinstance(value, str):
            if Path(value).suffix and (found := self.path_of(value)).is_file():
                yield found
        elif isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                yield from self._files(inner)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let worker processes be sent what it says, which they check again."""
        return _scenario, (self.source, self.folder, self.text, self.document, self.given)

    def path_to_read(self, file: str) -> Path:
        """Return `path_of` a file; `InputError`, which says where else it may be, without one."""
        from lyra_opt.instances.traces import NOT_THERE

        found = self.path_of(file)
        if not found.exists():
            raise InputError(file, f"is no file, {NOT_THERE}")
        return found

    def path_of(self, file: str) -> Path:
        """Return where a file is that it names: beside it, as given, or among the traces."""
        from lyra_opt.instances.traces import locate

        beside = stand_in(self.folder / file)
        found = beside if beside.is_file() else locate(file)
        require_no_stream(found)
        return found


def _sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Change:
    """A key that is other than in the file.

    Parameters
    ----------
    path
        Of the key.
    value
        Of the key.
    typed
        The value as it was typed where it is no text in TOML, for keys that must have text: a
        virtual cluster may be called 6214e9, which TOML has for a number.
    """

    path: str
    value: Any
    typed: str | None = None


def load_scenario(
    scenario: str | Mapping[str, Any] | Scenario,
    changes: Iterable[Change] = (),
    *,
    jobs: str | None = None,
    given: Given | None = None,
) -> Scenario:
    """Read and check a scenario.

    Parameters
    ----------
    scenario
        A bundled scenario's name, a TOML file, or what such a file says, ``format``, ``version``
        and ``name`` of which can be left out; or a scenario that was read.
    changes
        Keys that are other than in the file.
    jobs
        Job trace that takes the place of the jobs of the file.
    given
        Objects that take the place of what the file names; changes come after them.

    Raises
    ------
    UserError
        If there is no such scenario, or something in it is wrong; names file, field, value and
        rule.
    """
    document: Mapping[str, Any]
    if isinstance(scenario, Scenario):
        text, source, folder = scenario.text, scenario.source, scenario.folder
        document, given = scenario.document, given or scenario.given
    elif isinstance(scenario, str):
        text, source, folder = scenario_text(scenario)
        document = parse_toml(text, source, "a scenario")
    else:
        document = plain({**NAMELESS, **scenario})
        text, source, folder = toml_text(document), "scenario", Path()
    given = given or Given()
    try:
        if jobs is not None:
            of_trace = {
                name: value
                for name, value in document.get("jobs", {}).items()
                if name not in ("workload", "parameters")
            }
            document = {**document, "jobs": {**of_trace, "trace": jobs}}
            text = f"{CHANGED}the jobs of {jobs}\n{text}"
        document = given.put_into(document)
        text = "".join(f"{CHANGED}{words}\n" for words in given.words) + text
        for change in changes:
            is_text = isinstance(rule_at(ScenarioTable, change.path), Text)
            value = change.typed if is_text and change.typed is not None else change.value
            document = with_change(document, change.path, value)
            text = f"{CHANGED}{change.path} = {_shown(value)}\n{text}"
    except FieldError as error:
        raise InputError(source, str(error)) from None
    return _scenario(source, folder, text, document, given)


def _scenario(
    source: str, folder: Path, text: str, document: Mapping[str, Any], given: Given
) -> Scenario:
    try:
        # A file of cases need not say where jobs run; checked is the first case then.
        cases = document.get("cases")
        if isinstance(cases, list) and cases and isinstance(cases[0], str):
            table = parsed(ScenarioTable, with_case(document, cases[0]))
        else:
            table = parsed(ScenarioTable, document)
        given.require_alone(document)
    except FieldError as error:
        raise InputError(source, str(error)) from None
    return Scenario(
        source=source, folder=folder, text=text, document=document, table=table, given=given
    )


def is_own(value: object) -> bool:
    """Return whether a value is somebody's class, function or object, which no file can hold."""
    is_plain = value is None or isinstance(value, str | Path | int | float | Iterable)
    return isinstance(value, type) or not (is_plain or hasattr(value, "item"))


def plain(value: Any) -> Any:
    """Return a value as TOML has it, of one of Python's: tuples, ranges, arrays, NumPy's numbers.

    Raises
    ------
    UserError
        If TOML has no such value.

    Examples
    --------
    >>> plain({"seeds": range(2), "load": 0.5, "file": Path("a.csv")})
    {'seeds': [0, 1], 'load': 0.5, 'file': 'a.csv'}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, str | Path):
        return str(value)
    if is_own(value):
        raise UserError(
            f"{_shown(value)} stands where a file has a text, a number, a list or a table; classes "
            "and objects are given as schemes=, jobs= or cluster="
        )
    if isinstance(value, Iterable):
        return [plain(each) for each in value]
    return value.item() if hasattr(value, "item") else value


def toml_text(document: Mapping[str, Any]) -> str:
    """Return a file that says what a document says, a key a line.

    >>> print(toml_text({"seeds": [0, 1], "axes": {"cluster.servers": [4, 8]}}), end="")
    seeds = [0, 1]
    axes = {"cluster.servers" = [4, 8]}
    """
    return "".join(f"{_key(name)} = {_shown(value)}\n" for name, value in document.items())


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else json.dumps(name)


def variants(scenario: Scenario) -> list[tuple[dict[str, Any], Scenario]]:
    """Return each case of a scenario with each combination of the values of its axes, and these.

    Raises
    ------
    InputError
        If a combination breaks a rule, or no case is there.
    """
    axes = scenario.table.axes
    plain = {name: value for name, value in scenario.document.items() if name not in POINTS}
    documents: list[tuple[dict[str, Any], dict[str, Any]]] = [({}, plain)]
    if scenario.table.cases:
        absent = absent_cases(scenario)
        documents = [
            ({CASE: name}, with_case(plain, name))
            for name in scenario.table.cases
            if name not in absent
        ]
        if not documents:
            raise InputError(scenario.source, f"cases: not there: {_listed(absent.values())}")
    found = []
    for case, of_case in documents:
        for values in product(*axes.values()):
            named = {path: _of_axis(value) for path, value in zip(axes, values, strict=True)}
            document = of_case
            try:
                for path, value in zip(axes, values, strict=True):
                    as_in_file = list(value) if isinstance(value, tuple) else value
                    document = with_change(document, path, as_in_file)
            except FieldError as error:
                raise InputError(scenario.source, str(error.inside("axes"))) from None
            variant = _scenario(
                scenario.source, scenario.folder, scenario.text, document, scenario.given
            )
            found.append((case | named, variant))
    return found


def absent_cases(scenario: Scenario) -> dict[str, str]:
    """Return the trace of each case of a scenario whose trace is not there, by case."""
    traces = {
        name: with_case(scenario.document, name).get("jobs", {}).get("trace")
        for name in scenario.table.cases
    }
    return {
        name: str(trace)
        for name, trace in traces.items()
        if trace is not None and not scenario.path_of(str(trace)).is_file()
    }


def parse_change(text: str) -> Change:
    """Return a change such as ``cluster.loans.servers=70``; `UserError` if it is none."""
    path, sign, value = text.partition("=")
    path = path.strip()
    if not sign or not path or not all(path.split(".")):
        raise UserError(f"--set {text!r}: must be KEY=VALUE, such as cluster.loans.servers=70")
    try:
        found = tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        if value.lstrip().startswith(("[", "{")):
            rule = """names within [] or {} need quotes, such as schemes=["lyra"]"""
            raise UserError(f"--set {text!r}: is not valid TOML: {rule}") from None
        return Change(path, value.strip())
    return Change(path, found, None if isinstance(found, str) else value.strip())


def _of_axis(value: Any) -> Any:
    """Return what results call a value of an axis; lists and tables by how they are written."""
    return _shown(value) if isinstance(value, dict | list | tuple) else value


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        entries = (f"{_key(name)} = {_shown(each)}" for name, each in value.items())
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    if is_own(value):
        return str(getattr(value, "__name__", type(value).__name__))
    return json.dumps(value)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
