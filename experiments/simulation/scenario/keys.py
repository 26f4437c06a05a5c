"""Every key of a scenario file, with its rule, default and meaning.

``lyra-opt scenarios keys`` prints them; ``experiments/scenarios`` holds the files with names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import join_path
from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import Settings, Table, key
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
from lyra_opt.experiments.simulation.scenario.documents import is_user_object, plain, shown_value
from lyra_opt.instances.heterogeneous.clusters import known_gpu_types
from lyra_opt.instances.workloads.transform import JobAssumptions
from lyra_opt.network.links import LARGEST_LATENCY_S
from lyra_opt.simulation.policies.composed import SCALING_INTERVAL_S
from lyra_opt.simulation.speed import MIXED_EFFICIENCY
from lyra_opt.simulation.tenure import TENURES, Epochs, Forever, Leases, Rounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.simulation.cluster import GpuType
    from lyra_opt.simulation.scheme import Scheme

SCENARIO_FORMAT = "lyra-opt/scenario"

SCENARIO_VERSION = 1

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

DECISION_KINDS = ("reclaim", "allocation", "heterogeneous", "network")
"""The problems whose instances can be captured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeEntry:
    """A scheme as a scenario names it.

    Parameters
    ----------
    name
        Of the scheme.
    label
        What it is called in results.
    tenure
        Name of its tenure; None for its own.
    parameters
        What is other than the scheme has it.
    own
        An object in place of the one of the name.
    """

    name: str
    label: str
    tenure: str | None = None
    parameters: tuple[tuple[str, Any], ...] = field(default=(), hash=False)
    own: Scheme | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class _GpuTypes(Rule):
    """Types of GPUs by name, beside those of the toolkit."""

    def check(self, path: str, value: object) -> Mapping[str, GpuType]:
        if not isinstance(value, dict):
            raise FieldError(path, value, "must be a table")
        return known_gpu_types(value, field=path)

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
            raise FieldError(
                "day_s", self.day_s, "cannot be combined with usage, which is measured"
            )


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
        Number(0, 1), "share of an iteration's computing behind which communication can hide", 0.0
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
                    rule = "cannot be combined with slowdowns, which replace links"
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
            rule = f"cannot be combined with {said[0]}: each defines the servers"
            raise FieldError(said[1], given[said[1]], rule)
        if not said:
            raise FieldError("", {}, f"must say which servers there are: one of {', '.join(given)}")
        if self.network is not None and topology is None and self.servers_per_rack is None:
            raise FieldError("servers_per_rack", None, "must be there for a network of racks")
        if self.servers_per_rack is not None and topology is not None:
            rule = "cannot be combined with network.topology, which defines its own racks"
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
            raise FieldError("workload", self.workload, "cannot be combined with trace")
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
        changed = [f"{name}={shown_value(each)}" for name, each in parameters]
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

    said = {
        str(name): value if is_user_object(value) else plain(value) for name, value in table.items()
    }
    own = scheme_of(said["name"]) if is_user_object(said.get("name", "")) else None
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
        known_gpu_types(),
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
