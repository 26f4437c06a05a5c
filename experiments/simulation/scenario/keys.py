"""The keys of a scenario file: rule, default and meaning of each key.

``lyra-opt scenarios keys`` prints them; the bundled scenarios are in ``experiments/scenarios``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
from lyra_opt.simulation.cluster import GpuType
from lyra_opt.simulation.policies.composed import SCALING_INTERVAL_S
from lyra_opt.simulation.quotas import DIVISIONS
from lyra_opt.simulation.scheme import Scheme, scheme_of
from lyra_opt.simulation.speed import MIXED_EFFICIENCY
from lyra_opt.simulation.tenure import TENURES, Epochs, Forever, Leases, Rounds

SCENARIO_FORMAT = "lyra-opt/scenario"
SCENARIO_VERSION = 1
LARGEST_CLUSTER = 1_000_000
LARGEST_SERVER = 1024
MOST_DAYS = 1000
MOST_SEEDS = 10_000
MOST_COMBINATIONS = 10_000
DEFAULT_FORECASTER = "autoregressive"
"""The forecaster without knowledge of the future that has the least error on generated demand."""

DEFAULT_HEADROOM = 0.02
NO_AXES = ("format", "version", "name", "description", "seeds", "axes", "cases", "schemes")
"""Keys that cannot be an axis: they identify the scenario or are lists of alternatives already."""

DECISION_KINDS = ("reclaim", "allocation", "heterogeneous", "network", "preemption")
"""The problems whose instances can be captured from a simulation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeEntry:
    """A scheme in the list of a scenario, with its label and its changed tenure and parameters.

    Parameters
    ----------
    name, label
        Name of the scheme, and its name in results.
    tenure
        Name of a tenure; None for the scheme's own tenure.
    parameters
        Parameters that differ from the scheme's own values.
    own
        An object of the user's to run instead of the scheme with this name.
    """

    name: str
    label: str
    tenure: str | None = None
    parameters: tuple[tuple[str, Any], ...] = field(default=(), hash=False)
    own: Scheme | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class _GpuTypes(Rule):
    """The rule for a table of GPU types, which adds to or changes the bundled types."""

    def check(self, path: str, value: object) -> Mapping[str, GpuType]:
        if not isinstance(value, dict):
            raise FieldError(path, value, "must be a table")
        return known_gpu_types(value, field=path)

    def schema(self) -> dict[str, Any]:
        keys = {
            "relative_speed": {"anyOf": [Number(above=True).schema(), Text().schema()]},
            "price_per_hour": Number(above=True).schema(),
            "memory_mib": Integer(1).schema(),
            "source": Text().schema(),
        }
        entry = {"type": "object", "additionalProperties": False, "properties": keys}
        return {"type": "object", "additionalProperties": entry}

    def in_words(self) -> str:
        return "tables with relative_speed, price_per_hour, memory_mib and source by name"


@dataclass(frozen=True, kw_only=True)
class GroupTable:
    """A group of identical servers."""

    servers: int = key(Integer(1, LARGEST_CLUSTER), "number of servers")
    gpus_per_server: int = key(Integer(1, LARGEST_SERVER), "GPUs of each server", 8)
    gpu_type: str = key(Text(), "GPU type")


@dataclass(frozen=True, kw_only=True)
class LoansTable:
    """Servers of an inference cluster that training jobs may borrow."""

    servers: int | None = key(
        Integer(0, LARGEST_CLUSTER),
        "number of inference servers",
        None,
        shown="520 for each 443 x 8 training GPUs, as in Lyra",
    )
    gpus_per_server: int = key(Integer(1, LARGEST_SERVER), "GPUs of each inference server", 8)
    gpu_type: str | None = key(
        Text(), "GPU type of inference servers", None, shown="T4; three T4 replace one V100"
    )
    usage: str | None = key(
        Text(),
        "CSV file with GPU usage (time, total_gpu_num, running_gpu_num) or request rates (service, "
        "window_start_s, requests_per_s) over time as the inference demand; it starts at the first "
        "submission and repeats",
        None,
        shown="generated, like that of Lyra's inference cluster",
    )
    day_s: float = key(
        Number(above=True), "length of a day of generated demand in simulated seconds", 86_400.0
    )
    forecaster: str = key(
        Text(),
        "forecaster of inference demand: oracle, last-value, seasonal or autoregressive",
        DEFAULT_FORECASTER,
    )
    headroom: float = key(
        Number(0, 1), "share of the inference cluster that is never lent", DEFAULT_HEADROOM
    )

    def __post_init__(self) -> None:
        if self.usage is not None and self.day_s != 86_400:
            rule = "cannot be combined with usage, which is measured"
            raise FieldError("day_s", self.day_s, rule)


@dataclass(frozen=True, kw_only=True)
class NetworkTable:
    """The network between GPUs; gangs run slower over more distant GPUs."""

    topology: str | None = key(
        Text(),
        "TOML file with racks, machines and GPUs, instead of cluster.servers",
        None,
        shown="racks of cluster.servers_per_rack",
    )
    links: str | None = key(
        Text(),
        "set of links: shipped, congested-1 to congested-3, or free (communication takes no time)",
        None,
        shown="those of the topology, else shipped",
    )
    overlap: float = key(
        Number(0, 1), "share of an iteration's computing that can overlap with communication", 0.0
    )
    machine_latency_s: float | None = key(
        Number(0, LARGEST_LATENCY_S),
        "latency between GPUs of a machine in seconds",
        None,
        shown="that of the links",
    )
    rack_latency_s: float | None = key(
        Number(0, LARGEST_LATENCY_S),
        "latency between machines of a rack in seconds",
        None,
        shown="that of the links",
    )
    network_latency_s: float | None = key(
        Number(0, LARGEST_LATENCY_S),
        "latency between racks in seconds",
        None,
        shown="that of the links",
    )
    slowdowns: str | None = key(
        Text(),
        "CSV file with measured slowdowns instead of links (model, gpus, tier, slowdown), with a "
        "row for each model, gang of several GPUs and tier that the gang can span",
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
        """The latencies that a scenario sets, in seconds by key; None keeps the link's latency."""
        names = ("machine_latency_s", "rack_latency_s", "network_latency_s")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class QuotaTable:
    """The quota of a tenant, or of a group of tenants."""

    share: float | None = key(
        Number(0, 1), "share of the quota of its group, or of the own GPUs without a group", None
    )
    gpus: int | None = key(Integer(), "number of GPUs, instead of a share", None)
    most_gpus: int | None = key(
        Integer(), "most own GPUs that it may hold", None, shown="by tenants.limit"
    )
    group: str | None = key(Text(), "name of its group, such as a department", None)

    def __post_init__(self) -> None:
        if (self.share is None) == (self.gpus is None):
            raise FieldError("share", self.share, "must be given, or else gpus, but not both")


@dataclass(frozen=True, kw_only=True)
class TenantsTable:
    """The quotas of tenants, who are the users, teams or virtual clusters of the jobs."""

    quotas: Mapping[str, QuotaTable] = key(
        Named(Table(QuotaTable)), "quota of each tenant, and of each group of tenants, by name", {}
    )
    divide: str | None = key(
        Text(DIVISIONS),
        "how the own GPUs are divided among the tenants of the jobs, instead of quotas: equally, "
        "or by the GPU time that they request; each gets at least the GPUs of its largest job",
        None,
    )
    limit: float | None = key(
        Number(1),
        "most own GPUs that a tenant or group may hold, as a multiple of its quota",
        None,
        shown="no limit",
    )

    def __post_init__(self) -> None:
        if bool(self.quotas) == (self.divide is not None):
            rule = "must be given, or else divide, but not both"
            raise FieldError("quotas", dict(self.quotas), rule)


@dataclass(frozen=True, kw_only=True)
class ClusterTable:
    """The cluster on which jobs run."""

    name: str | None = key(Text(), "name in results", None, shown="by its servers")
    like: str | None = key(
        Text(), 'name of a bundled cluster, see "lyra-opt scenarios parts"', None
    )
    servers: int | None = key(
        Integer(1, LARGEST_CLUSTER), "number of identical training servers", None
    )
    gpus_per_server: int = key(Integer(1, LARGEST_SERVER), "GPUs of each training server", 8)
    gpu_type: str | None = key(
        Text(), "GPU type of training servers", None, shown="V100, the reference"
    )
    groups: tuple[GroupTable, ...] = key(
        ListOf(Table(GroupTable)),
        "groups of servers with different GPUs, instead of servers; the fastest group first",
        (),
    )
    nodes: str | None = key(
        Text(),
        "CSV file with a row for each node (node, gpus, gpu_type), or a published list of nodes, "
        "instead of servers",
        None,
    )
    servers_per_rack: int | None = key(
        Integer(1, LARGEST_CLUSTER),
        "servers of each rack; racks slow jobs down only with a network, but jobs.csv.gz states "
        "how many racks each job spanned",
        None,
        shown="no racks",
    )
    loans: LoansTable | None = key(Table(LoansTable), "servers that can be borrowed", None)
    network: NetworkTable | None = key(
        Table(NetworkTable), "network that slows down distant gangs", None
    )
    tenants: TenantsTable | None = key(Table(TenantsTable), "quotas of tenants", None)

    def __post_init__(self) -> None:
        topology = None if self.network is None else self.network.topology
        given = {
            "servers": self.servers,
            "like": self.like,
            "groups": list(self.groups) or None,
            "nodes": self.nodes,
            "network.topology": topology,
        }
        stated = [name for name, value in given.items() if value is not None]
        if len(stated) > 1:
            rule = f"cannot be combined with {stated[0]}: each states the servers of the cluster"
            raise FieldError(stated[1], given[stated[1]], rule)
        if not stated:
            others = ", ".join(list(given)[1:])
            rule = (
                "must be set, such as --set cluster.servers=60 (in Python "
                f'changes={{"cluster.servers": 60}}), or else one of {others}'
            )
            raise FieldError("servers", None, rule)
        if self.network is not None and topology is None and self.servers_per_rack is None:
            raise FieldError("servers_per_rack", None, "is required for a network of racks")
        if self.servers_per_rack is not None and topology is not None:
            rule = "cannot be combined with network.topology, which has its own racks"
            raise FieldError("servers_per_rack", self.servers_per_rack, rule)


@dataclass(frozen=True, kw_only=True)
class BootstrapTable:
    """The settings for a bootstrap of a workload, which samples its days with replacement."""

    days: int = key(Integer(1, MOST_DAYS), "number of sampled days")
    block_days: int | None = key(
        Integer(1, MOST_DAYS),
        "number of consecutive days that are sampled together",
        None,
        shown="the cube root of the number of days of the jobs",
    )
    draw: int | None = key(
        Integer(), "number of the sample; each number gives another sample", None, shown="the seed"
    )


@dataclass(frozen=True, kw_only=True)
class JobsTable:
    """The jobs that are submitted."""

    trace: str | None = key(
        Text(),
        "job trace, plain or gzip; a relative path is looked for beside the scenario, in the "
        "current folder and in the folder LYRA_OPT_TRACES",
        None,
    )
    workload: str | None = key(
        Text(),
        'name of a generated workload, instead of a trace; see "lyra-opt scenarios parts"',
        None,
    )
    parameters: Mapping[str, Any] = key(
        Named(Anything()), "parameters of the generated workload, such as jobs or days", {}
    )
    vc: str | None = key(Text(), "use only the jobs of this virtual cluster of a trace", None)
    first_day: int | None = key(
        Integer(1), "use only the jobs of a trace from this day on; the first day is 1", None
    )
    days: int | None = key(
        Integer(1, MOST_DAYS), "use only this many days of a trace, from jobs.first_day on", None
    )
    count: int | None = key(Integer(1), "use only the first jobs of a trace", None)
    sample: int | None = key(
        Integer(1),
        "use only this many jobs of a trace: every n-th from the first on, where n is the number "
        'of jobs divided by this one, rounded down; with oversized = "drop", only jobs that fit',
        None,
    )
    load: float | None = key(
        Number(above=True),
        "requested GPU time as a share of the own GPUs' time between the first and the last "
        "submission, where GPUs of all types count alike, whatever their speed; the times between "
        "submissions are scaled to reach it",
        None,
        shown="that of the jobs",
    )
    bootstrap: BootstrapTable | None = key(
        Table(BootstrapTable), "sample the days of the jobs with replacement", None
    )
    layout: str | None = key(
        Text(),
        'name of the trace\'s layout, see "lyra-opt scenarios parts"',
        None,
        shown="by the content of the file",
    )
    slices: str = key(
        Text(("whole", "part")),
        "what a job of a trace that asks for part of a GPU gets: a whole GPU, or that part, which "
        "only some schemes can give",
        "whole",
    )
    bad_rows: str = key(
        Text(("refuse", "drop")), "what to do with invalid rows of a trace", "refuse"
    )
    measured_on: str | None = key(
        Text(),
        "GPU type on which the running times of a trace were measured",
        None,
        shown="that of the layout, or the only type that a job requests, or the reference",
    )
    oversized: str = key(
        Text(("refuse", "drop")),
        "what to do with jobs that are too large for the cluster or for a scheme",
        "refuse",
    )
    assumptions: JobAssumptions | None = key(
        Settings(JobAssumptions),
        "random properties of jobs that no public trace states, such as elasticity; by seed",
        None,
    )

    def __post_init__(self) -> None:
        if self.trace is not None and self.workload is not None:
            raise FieldError("workload", self.workload, "cannot be combined with trace")
        if self.workload is None and self.parameters:
            raise FieldError(
                "parameters", dict(self.parameters), "must not be set without workload"
            )
        if self.workload is not None:
            for name in ("vc", "first_day", "days", "count", "sample", "layout", "measured_on"):
                if getattr(self, name) is not None:
                    rule = "applies only to a trace; a generated workload has parameters"
                    raise FieldError(name, getattr(self, name), rule)


@dataclass(frozen=True, kw_only=True)
class SpeedTable:
    """The speed of jobs."""

    throughputs: str | None = key(
        Text(),
        "measured throughputs by model and GPU type: gavel, or a CSV file",
        None,
        shown="gavel for heterogeneous own GPUs without a network, else none",
    )
    mixed_efficiency: float = key(
        Number(0, 1, above=True),
        "throughput of a job on own and borrowed GPUs at once, as a share of the ideal",
        MIXED_EFFICIENCY,
    )


@dataclass(frozen=True, kw_only=True)
class TenureTable:
    """How long jobs keep their GPUs, and the cost of a change."""

    all: str | None = key(Text(TENURES), "tenure of all schemes", None, shown="that of each scheme")
    scaling_interval_s: float = key(
        Number(),
        "least time between two resizings of elastic jobs in seconds; 0 resizes at every event",
        SCALING_INTERVAL_S,
    )
    forever: Forever = key(
        Settings(Forever), "for jobs that keep GPUs until completion or preemption", Forever()
    )
    leases: Leases = key(Settings(Leases), "for jobs that keep GPUs for a lease", Leases())
    rounds: Rounds = key(Settings(Rounds), "for schemes that decide in rounds", Rounds())
    epochs: Epochs = key(Settings(Epochs), "for schemes that decide in Pollux's epochs", Epochs())


@dataclass(frozen=True, kw_only=True)
class CaptureTable:
    """The decisions that a simulation saves if a folder for them is given."""

    most: int = key(
        Integer(1), "largest number of contested, and of easy, decisions per problem and scheme", 50
    )
    kinds: tuple[str, ...] = key(
        ListOf(Text(DECISION_KINDS)), "problems whose decisions are saved", DECISION_KINDS
    )


@dataclass(frozen=True, slots=True)
class _Scheme(Rule):
    """The rule for a scheme in a scenario: a name, or a table with changed parameters."""

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
        properties = {
            "name": Line().schema(),
            "label": Line().schema(),
            "tenure": Text(TENURES).schema(),
        }
        table = {"type": "object", "properties": properties, "required": ["name"]}
        return {"anyOf": [Text().schema(), table]}

    def in_words(self) -> str:
        return "name, or table with name, label, tenure and changed parameters of the scheme"


def scheme_entry(table: Mapping[str, Any]) -> SchemeEntry:
    """Return the scenario's entry for a scheme that a Python caller describes as a table.

    Raises
    ------
    UserError
        If the table is not a valid scheme; names the key.
    """
    values = {
        str(name): value if is_user_object(value) else plain(value) for name, value in table.items()
    }
    own = scheme_of(values["name"]) if is_user_object(values.get("name", "")) else None
    named = values if own is None else values | {"name": own.name}
    return replace(_Scheme().check("schemes", named), own=own)


@dataclass(frozen=True, kw_only=True)
class ScenarioTable:
    """The top-level keys of a scenario file."""

    format: str = key(Text((SCENARIO_FORMAT,)), "name of the file format")
    version: int = key(Integer(SCENARIO_VERSION, SCENARIO_VERSION), "version of the format")
    name: str = key(Name(), "name in results")
    description: str = key(Text(), "purpose of the scenario", "")
    seeds: tuple[int, ...] = key(
        Seeds(MOST_SEEDS), "seeds of all random inputs; one replay per seed", (0,)
    )
    axes: Mapping[str, tuple[Any, ...]] = key(
        Named(ListOf(Anything())),
        'keys of this file with several values each, such as "cluster.loans.servers" = '
        "[0, 70, 140]; all combinations are replayed",
        {},
    )
    cases: tuple[str, ...] = key(
        ListOf(Text()),
        "scenarios that are replayed one after another with their cluster, gpu_types, jobs, speed "
        "and tenure; keys of this file take precedence; a case whose trace does not exist is "
        "reported and left out",
        (),
    )
    schemes: tuple[SchemeEntry, ...] = key(
        ListOf(_Scheme()), 'schemes that run the cluster, see "lyra-opt schemes"'
    )
    cluster: ClusterTable = key(Table(ClusterTable), "the cluster on which jobs run")
    gpu_types: Mapping[str, GpuType] = key(
        _GpuTypes(),
        "your own GPU types, or changed bundled types: price, and speed relative to a V100 for "
        'models without a measured throughput (a number, or a ratio such as "1555/900")',
        known_gpu_types(),
        shown="the bundled types",
    )
    jobs: JobsTable = key(Table(JobsTable), "the jobs that are submitted", JobsTable())
    speed: SpeedTable = key(Table(SpeedTable), "the speed of jobs", SpeedTable())
    tenure: TenureTable = key(Table(TenureTable), "how long jobs keep their GPUs", TenureTable())
    capture: CaptureTable = key(Table(CaptureTable), "the decisions to save", CaptureTable())
    bounds: bool = key(
        Flag(),
        "whether to prove lower bounds on mean JCT and mean queuing time, and without loans on the "
        "makespan of measured jobs on heterogeneous GPUs and of gangs in a network",
        False,
    )

    def __post_init__(self) -> None:
        for path, values in self.axes.items():
            axis = join_path("axes", path)
            if path.partition(".")[0] in NO_AXES:
                rule = f"must not be an axis; neither may {', '.join(NO_AXES)}"
                raise FieldError(axis, list(values), rule)
            for other in self.axes:
                if other.startswith(f"{path}."):  # the outer axis would overwrite the inner one
                    rule = f"must not contain {other}, which is an axis too"
                    raise FieldError(axis, list(values), rule)
            shown = [str(value) for value in values]  # keys of runs show values as text
            if len(set(shown)) < len(shown):
                raise FieldError(axis, list(values), "must not have the same value twice")
        if len(set(self.cases)) < len(self.cases):
            raise FieldError("cases", list(self.cases), "must not name a scenario twice")
        combinations = math.prod(map(len, self.axes.values())) * max(1, len(self.cases))
        if combinations > MOST_COMBINATIONS:
            rule = f"must have at most {MOST_COMBINATIONS:,} combinations, not {combinations:,}"
            raise FieldError("axes", dict(self.axes), rule)
        labels = [entry.label for entry in self.schemes]
        for label in labels:
            if labels.count(label) > 1:
                rule = "must not be named twice. Give one of them a label."
                raise FieldError("schemes", label, rule)
