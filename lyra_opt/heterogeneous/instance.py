"""The heterogeneous problem: gangs on unlike GPUs, in rounds or as shares of time.

Source: Hadar (arXiv 2503.10918; IPDPS 2024) for schedules in rounds, Gavel (OSDI 2020) for shares
of time. See `formulations/heterogeneous/README.md` for the mathematics.

Two jobs may share the same GPUs, each at a rate of its own: space sharing of Gavel (section 3.1,
and its public code). Rows of its shares are single jobs and pairs of jobs with as many workers
each, and a job does the steps of all its rows.
"""

from __future__ import annotations

import math
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import OneOfTables, Table, declared, key
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.core.problem import ProblemInstance, Variant
from lyra_opt.core.rules import (
    Choice,
    Flag,
    Integer,
    ListOf,
    Named,
    Number,
    OrNull,
    Text,
    require_sum,
)
from lyra_opt.heterogeneous.utility import Deadline, InverseJct, Quantity, Utility, UtilityTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import networkx

    from lyra_opt.core.fields import Field, TablesOf, VariantOf


MOST_ROUNDS = 100_000
MOST_GPUS = 1_000_000
"""Of a cluster, and so of a gang; algorithms may take time and memory for each."""

MOST_ELAPSED_S = 1e12
"""Thirty thousand years; beyond, what is left to do is lost in rounding."""


SHARE_PROOF_GAP = 1e-5
"""Of shares, which may break rules by 1e-6; a bound on them holds for all that do."""


class Objective(Variant):
    """What is optimised; the variants of the problem.

    Those counted in rounds are proved as integers are, sums of worth within 1e-6.
    """

    UTILITY = "utility", "max", 1e-6
    """A schedule in rounds of most weighted utility (Hadar's offline problem)."""
    MAKESPAN = "makespan", "min"
    """A schedule in rounds whose last job completes earliest."""
    MEAN_JCT = "mean_jct", "min"
    """A schedule in rounds of least mean job completion time."""
    ROUND_PROGRESS = "round_progress", "max", 1e-6
    """One round: most weighted progress, each job's as a share of the steps that it has left."""
    MAX_MIN_SHARE = "max_min_share", "max", SHARE_PROOF_GAP
    """Shares of time: the least normalised throughput is greatest (Gavel's LAS)."""
    FINISH_TIME_FAIRNESS = "finish_time_fairness", "min", SHARE_PROOF_GAP
    """Shares of time: the greatest ratio to the finish time on an equal part is least."""
    MAKESPAN_SHARE = "makespan_share", "min", SHARE_PROOF_GAP
    """Shares of time: all jobs are done soonest, each at the speed that its shares give it."""
    THROUGHPUT = "throughput", "max", SHARE_PROOF_GAP
    """Shares of time: most weighted steps a second."""
    COST = "cost", "max", SHARE_PROOF_GAP
    """Shares of time: most steps a second for each unit of money, deadlines kept."""


SCHEDULE_OBJECTIVES = frozenset({Objective.UTILITY, Objective.MAKESPAN, Objective.MEAN_JCT})
"""Answered by `RoundSchedule`, as `Objective.ROUND_PROGRESS` is."""

SHARE_OBJECTIVES = frozenset(
    {
        Objective.MAX_MIN_SHARE,
        Objective.FINISH_TIME_FAIRNESS,
        Objective.MAKESPAN_SHARE,
        Objective.THROUGHPUT,
        Objective.COST,
    }
)
"""Answered by `TimeShares`."""

Placement = dict[str, dict[str, int]]
"""GPUs by server and type; each number at least 1."""


@declared()
class GpuType:
    """A kind of GPU."""

    name: str = key(Text(), "unique in the instance")
    price_per_hour: float = key(
        Quantity(above=True), "what one costs; only the objective cost asks", default=1.0
    )


@declared()
class GpuServer:
    """A server with GPUs of one or more kinds."""

    id: str = key(Text(), "unique in the instance")
    gpus: Mapping[str, int] = key(
        Named(Integer()), "how many of each type, at least one GPU in all; others are not there"
    )

    def __post_init__(self) -> None:
        if 0 in self.gpus.values():
            kept = FrozenDict({name: count for name, count in self.gpus.items() if count})
            object.__setattr__(self, "gpus", kept)
        if not self.gpus:
            raise FieldError("gpus", {}, "must have at least one GPU")


class InnerPolicy(StrEnum):
    """How an entity divides what it gets among its jobs."""

    FAIRNESS = "fairness"
    """By their weights."""
    FIFO = "fifo"
    """All to the first job that can have more."""


@declared()
class Entity:
    """Whom jobs belong to, such as a team: what water filling is fair to first."""

    name: str = key(Text(), "unique in the instance")
    weight: float = key(Quantity(above=True), "what it counts for among entities", default=1.0)
    policy: Field[InnerPolicy, str] = key(
        Choice(InnerPolicy),
        "among its jobs: by their weights, or all to the first in the file that can have more",
        default=InnerPolicy.FAIRNESS,
    )


_RATES = Named(Quantity())
_PLACEMENT = Named(Named(Integer(1), least=1))


@declared()
class GangJob:
    """A training job whose workers, one GPU each, all run or none."""

    id: str = key(Text(), "unique in the instance")
    gang: int = key(Integer(1, MOST_GPUS), "its workers, and so its GPUs")
    steps: float = key(Quantity(above=True), "training steps that are left")
    throughput: Mapping[str, float] = key(
        _RATES,
        "steps a second of the whole gang on one server, by GPU type; 0 where it cannot run, above "
        "0 for one type at least; a gang on several types runs at the speed of the slowest",
    )
    spread_throughput: Mapping[str, float] | None = key(
        OrNull(_RATES),
        "the same where the gang is on several servers",
        default=None,
        shown="as throughput",
    )
    release_s: float = key(Quantity(), "when it is submitted", default=0.0)
    weight: float = key(Quantity(above=True), "what it counts for", default=1.0)
    utility: Field[Utility, Utility | Mapping[str, Any]] = key(
        OneOfTables((InverseJct, Deadline, UtilityTable)),
        "what its completion is worth by its JCT",
        default=InverseJct(),
        shown="inverse_jct with scale 1",
    )
    elapsed_s: float = key(
        Quantity(most=MOST_ELAPSED_S),
        "how long it has been there, for finish_time_fairness and deadlines of cost",
        default=0.0,
    )
    isolated_elapsed_s: float = key(
        Quantity(most=MOST_ELAPSED_S),
        "how long it would have been there for the same progress on an equal part of the cluster, "
        "for finish_time_fairness",
        default=0.0,
    )
    entity: str | None = key(
        OrNull(Text()), "whom it belongs to: one of the entities, where there are any", default=None
    )
    kind: str | None = key(
        OrNull(Text()),
        "what it trains on how many GPUs, for packed: jobs of a kind have the same gang and "
        "throughput",
        default=None,
    )
    current: Mapping[str, Mapping[str, int]] = key(
        _PLACEMENT,
        "GPUs that it holds as the first round begins, by server and type: its gang, or none",
        default={},
    )

    def __post_init__(self) -> None:
        if not any(self.throughput.values()):
            raise FieldError("throughput", self.throughput, "must be above 0 for at least one type")
        if self.current:
            held = sum(sum(types.values()) for types in self.current.values())
            if held != self.gang:
                rule = f"must be {self.gang} GPUs in all, the job's gang, or none"
                raise FieldError("current", self.current, rule)

    def rate(self, gpu_types: Iterable[str], *, is_spread: bool) -> float:
        """Return the steps a second of the gang on these types: that of the slowest.

        Source: Hadar, the bottleneck rate of synchronous training.

        Parameters
        ----------
        gpu_types
            Those of its GPUs, at least one.
        is_spread
            Whether they are on several servers.
        """
        rates = self.throughput
        if is_spread and self.spread_throughput is not None:
            rates = self.spread_throughput
        return min(rates.get(name, 0.0) for name in gpu_types)

    def rate_of(self, placement: Mapping[str, Mapping[str, int]]) -> float:
        """Return the steps a second of the gang where it is placed."""
        types = {name for counts in placement.values() for name in counts}
        return self.rate(types, is_spread=len(placement) > 1)

    @property
    def best_rate(self) -> float:
        """Steps a second on the type that suits it best, on one server or several."""
        rates = list(self.throughput.values())
        if self.spread_throughput is not None:
            rates += self.spread_throughput.values()
        return max(rates)


@declared()
class PackedRate:
    """How fast jobs of a kind are while another job runs on the same GPUs."""

    kind: str = key(Text(), "the kind of a job")
    beside: str = key(
        Text(), "the kind of the job beside it, of the same gang; may be the same kind"
    )
    throughput: Mapping[str, float] = key(
        Named(Quantity()),
        "steps a second of the whole gang of the first, by GPU type; 0 or left out where the two "
        "do not run together",
    )


@declared(
    slots=False,
    schema={
        "allOf": [
            {
                "if": {
                    "required": ["objective"],
                    "properties": {"objective": {"const": "round_progress"}},
                },
                "then": {"properties": {"horizon_rounds": {"const": 1}}},
                "else": {"properties": {"restart_s": {"const": 0}}},
            },
            {
                "if": {
                    "properties": {"objective": {"enum": sorted(map(str, SHARE_OBJECTIVES))}},
                },
                "then": {"properties": {"forking": {"const": False}}},
                "else": {"properties": {"packed": {"maxItems": 0}}},
            },
        ]
    },
)
class Instance(ProblemInstance["Solution"]):
    """Which GPUs each gang gets, round by round or as shares of time."""

    problem = "heterogeneous"

    objective: VariantOf[Objective] = key(
        Choice(Objective),
        "what is optimised",
        default=Objective.MAX_MIN_SHARE,  # Gavel's default; unlike schedules it knows no horizon
        always_written=True,
    )
    round_s: float = key(Quantity(above=True), "length of a round", default=360.0)
    horizon_rounds: int = key(
        Integer(1, MOST_ROUNDS),
        "rounds of a schedule, from time 0; 1 for round_progress. A job may run in rounds that "
        "begin at or after its release; shares of time know no horizon",
        default=1,
    )
    restart_s: float = key(
        Quantity(),
        "part of a round, at most round_s, that is lost to a job that runs on other GPUs than its "
        "current ones; for round_progress alone",
        default=0.0,
    )
    forking: bool = key(
        Flag(),
        "whether copies of a job may run at once (HadarE), each a whole gang on one server, no two "
        "on the same, whose steps add up; for schedules in rounds and round_progress",
        default=False,
    )
    gpu_types: TablesOf[GpuType] = key(
        ListOf(Table(GpuType), unique="name"), "the types of GPUs, in file order"
    )
    entities: TablesOf[Entity] = key(
        ListOf(Table(Entity), unique="name", least=0),
        "whom jobs belong to, for the solver water-filling; others are fair to jobs alone",
        default=(),
    )
    servers: TablesOf[GpuServer] = key(
        ListOf(Table(GpuServer), unique="id"), "the servers, in file order"
    )
    jobs: TablesOf[GangJob] = key(ListOf(Table(GangJob), unique="id"), "the jobs, in file order")
    packed: TablesOf[PackedRate] = key(
        ListOf(Table(PackedRate), least=0),
        "how fast jobs are beside another on the same GPUs, for shares of time alone; two jobs may "
        "run so on types on which either kind has a rate beside the other",
        default=(),
    )

    def __post_init__(self) -> None:
        if self.restart_s > self.round_s:
            rule = f"must be at most round_s, {self.round_s:g}"
            raise FieldError("restart_s", self.restart_s, rule)
        self._require_known_types()
        require_sum(
            ((sum(server.gpus.values()), server.gpus) for server in self.servers),
            "servers[{}].gpus",
            most=MOST_GPUS,
            rule=f"all servers up to this one must have at most {MOST_GPUS} GPUs",
        )
        self._require_known_entities()
        self._require_current_to_fit()
        self._require_what_the_objective_needs()
        require_sound_packing(self.jobs, self.packed, [kind.name for kind in self.gpu_types])

    def _require_known_types(self) -> None:
        known = {gpu_type.name for gpu_type in self.gpu_types}
        rule = f"must be one of the gpu_types: {', '.join(sorted(known))}"
        for position, server in enumerate(self.servers):
            for name in server.gpus:
                if name not in known:
                    raise FieldError(f"servers[{position}].gpus", name, rule)
        for position, job in enumerate(self.jobs):
            for table in ("throughput", "spread_throughput"):
                for name in getattr(job, table) or ():
                    if name not in known:
                        raise FieldError(f"jobs[{position}].{table}", name, rule)

    def _require_known_entities(self) -> None:
        known = [entity.name for entity in self.entities]
        for position, job in enumerate(self.jobs):
            if known and job.entity not in known:
                rule = f"must be one of the entities: {', '.join(known)}"
                raise FieldError(f"jobs[{position}].entity", job.entity, rule)

    def _require_current_to_fit(self) -> None:
        left = {server.id: dict(server.gpus) for server in self.servers}
        for position, job in enumerate(self.jobs):
            for server, types in job.current.items():
                field_name = f"jobs[{position}].current.{server}"
                if server not in left:
                    raise FieldError(field_name, server, "must be a server of the instance")
                for name, count in types.items():
                    there = left[server].get(name, 0)
                    if count > there:
                        rule = f"must be at most the {there} GPUs that other jobs leave"
                        raise FieldError(f"{field_name}.{name}", count, rule)
                    left[server][name] = there - count

    def _require_what_the_objective_needs(self) -> None:
        objective = self.objective
        if objective is Objective.ROUND_PROGRESS and self.horizon_rounds != 1:
            rule = "must be 1 for the objective round_progress"
            raise FieldError("horizon_rounds", self.horizon_rounds, rule)
        if self.restart_s and objective is not Objective.ROUND_PROGRESS:
            rule = f"must be 0 for the objective {objective}"
            raise FieldError("restart_s", self.restart_s, rule)
        if self.packed and objective not in SHARE_OBJECTIVES:
            rule = f"must be empty for the objective {objective}"
            raise FieldError("packed", f"{len(self.packed)} entries", rule)
        if self.forking and objective in SHARE_OBJECTIVES:
            raise FieldError("forking", True, f"must be false for the objective {objective}")
        if objective in SHARE_OBJECTIVES:
            # A gang that no type can hold, or that fits none of those that are there, has no share.
            for position, job in enumerate(self.jobs):
                if not any(
                    job.throughput.get(name, 0.0) > 0 and job.gang <= count
                    for name, count in self.gpus_of_type.items()
                ):
                    rule = "must be positive for a type of which there are GPUs for the gang"
                    raise FieldError(f"jobs[{position}].throughput", job.throughput, rule)

    @property
    def variant(self) -> Objective:
        """The objective, with its sense."""
        return self.objective

    def to_networkx(self) -> networkx.Graph:
        """Return the graph of servers, GPU types and jobs.

        Nodes are ``("gpu_type", name)`` with ``price_per_hour`` and the ``gpus`` of the whole
        cluster, ``("server", id)``, and ``("job", id)`` with ``gang``, ``steps``, ``weight`` and
        ``release_s``. Edges join a server to its types (``gpus``), a job to the types on which it
        can run (``rate`` and ``spread_rate``, steps a second on one server and on several), and a
        job to the servers that it holds (``current``, GPUs by type). The graph has ``name`` and
        ``objective``. Complexity O(types * (servers + jobs) + GPUs held).
        """
        import networkx

        graph = networkx.Graph(name=self.name, objective=str(self.objective))
        for gpu_type in self.gpu_types:
            graph.add_node(
                ("gpu_type", gpu_type.name),
                price_per_hour=gpu_type.price_per_hour,
                gpus=self.gpus_of_type[gpu_type.name],
            )
        for server in self.servers:
            graph.add_node(("server", server.id))
            for name, count in server.gpus.items():
                graph.add_edge(("server", server.id), ("gpu_type", name), gpus=count)
        for job in self.jobs:
            node = ("job", job.id)
            graph.add_node(
                node, gang=job.gang, steps=job.steps, weight=job.weight, release_s=job.release_s
            )
            for gpu_type in self.gpu_types:
                rates = [
                    job.rate([gpu_type.name], is_spread=is_spread) for is_spread in (False, True)
                ]
                if any(rates):
                    graph.add_edge(
                        node, ("gpu_type", gpu_type.name), rate=rates[0], spread_rate=rates[1]
                    )
            for server_id, types in job.current.items():
                graph.add_edge(node, ("server", server_id), current=dict(types))
        return graph

    @cached_property
    def gpus_of_type(self) -> Mapping[str, int]:
        """GPUs of each type in the whole cluster, by name in file order."""
        return FrozenDict(
            {
                gpu_type.name: sum(server.gpus.get(gpu_type.name, 0) for server in self.servers)
                for gpu_type in self.gpu_types
            }
        )

    @cached_property
    def job_position(self) -> Mapping[str, int]:
        """File position of each job by id."""
        return FrozenDict({job.id: position for position, job in enumerate(self.jobs)})

    @cached_property
    def server_of(self) -> Mapping[str, GpuServer]:
        """Each server by id."""
        return FrozenDict({server.id: server for server in self.servers})

    @property
    def horizon_s(self) -> float:
        """When the last round ends."""
        return self.horizon_rounds * self.round_s

    def first_round(self, job: GangJob) -> int:
        """Return the first round that begins at or after the release of a job."""
        return math.ceil(Fraction(job.release_s) / Fraction(self.round_s))


@declared()
class RoundEntry:
    """A gang in a round."""

    job: str = key(Text(), "its id; with forking it may occur in a round once for each copy")
    round: int = key(Integer(), "from 0")
    gpus: Placement = key(
        Named(Named(Integer(1), least=1), least=1),
        "GPUs by server and type where it is placed, as many as its gang",
    )


@declared(kw_only=False)
class RoundSchedule:
    """Which gangs run where in each round; `check` judges it.

    A job is complete at the end of the round in which it has done all its steps. What it would do
    beyond them counts for nothing.
    """

    entries: TablesOf[RoundEntry] = key(
        ListOf(Table(RoundEntry), least=0),
        "a gang, or a copy, in a round; by round, then in file order",
        named="allocation",
    )


@declared(kw_only=False)
class TimeShares:
    """The share of time in which each job runs on each type; `check` judges it."""

    shares: Mapping[str, Mapping[str, float]] = key(
        Named(Named(Number(most=MOST_GPUS, as_given=True))),
        "the share of time from 0 to 1 by job and type; what is left out is 0",
        named="allocation",
    )
    packed: Mapping[str, Mapping[str, Mapping[str, float]]] = key(
        Named(Named(Named(Number(most=MOST_GPUS, as_given=True)))),
        "the same of two jobs at once on the same GPUs, by one, the other and type; beside what "
        "they run alone",
        default={},
    )


Solution = RoundSchedule | TimeShares
"""`TimeShares` for `SHARE_OBJECTIVES`, a schedule for the other objectives."""


class Pair(NamedTuple):
    """Two jobs that may share GPUs.

    Parameters
    ----------
    first, second
        File positions, ascending.
    rates
        Of each, by those types on which both run, and of which there are GPUs for the gang.
    """

    first: int
    second: int
    rates: tuple[Mapping[str, float], Mapping[str, float]]


def pairs_of(
    jobs: Sequence[GangJob], packed: Sequence[PackedRate], gpus_of_type: Mapping[str, int]
) -> list[Pair]:
    """Return the pairs of jobs that may share GPUs, by file order; O(kinds^2 types + pairs).

    Parameters
    ----------
    jobs, packed, gpus_of_type
        Of an instance.
    """
    if not packed:
        return []
    members: dict[str, list[int]] = {}
    for position, job in enumerate(jobs):
        if job.kind is not None:
            members.setdefault(job.kind, []).append(position)
    known = {(entry.kind, entry.beside): entry.throughput for entry in packed}
    pairs = []
    for (kind, beside), rates in known.items():
        others = known.get((beside, kind))
        if others is None:
            continue
        gang = jobs[members[kind][0]].gang
        types = [
            name
            for name, gpus in gpus_of_type.items()
            if gang <= gpus and rates.get(name) and others.get(name)
        ]
        if not types:
            continue
        both = {name: rates[name] for name in types}, {name: others[name] for name in types}
        pairs += [
            Pair(first, second, both)
            for first in members[kind]
            for second in members[beside]
            if first < second
        ]
    return sorted(pairs, key=lambda pair: pair[:2])


def require_sound_packing(
    jobs: Sequence[GangJob], packed: Sequence[PackedRate], gpu_types: Sequence[str]
) -> None:
    """Check what holds between kinds, jobs and packed rates of an instance.

    Raises
    ------
    FieldError
        That names the field and the rule.
    """
    of_kind = _jobs_of_kinds(jobs)
    seen = set()
    for position, entry in enumerate(packed):
        path = f"packed[{position}]"
        for name in ("kind", "beside"):
            if getattr(entry, name) not in of_kind:
                rule = "must be the kind of a job"
                raise FieldError(f"{path}.{name}", getattr(entry, name), rule)
        gang = of_kind[entry.kind].gang
        if of_kind[entry.beside].gang != gang:
            rule = f"must have the gang of {entry.kind}, {gang}, to share its GPUs"
            raise FieldError(f"{path}.beside", entry.beside, rule)
        if (entry.kind, entry.beside) in seen:
            rule = f"must occur once only beside {entry.kind}"
            raise FieldError(f"{path}.beside", entry.beside, rule)
        seen.add((entry.kind, entry.beside))
        for name in entry.throughput:
            if name not in gpu_types:
                rule = f"must be one of the gpu_types: {', '.join(sorted(gpu_types))}"
                raise FieldError(f"{path}.throughput", name, rule)


def _jobs_of_kinds(jobs: Sequence[GangJob]) -> dict[str, GangJob]:
    """Return the first job of each kind; all of a kind are the same on GPUs."""
    found: dict[str, GangJob] = {}
    for position, job in enumerate(jobs):
        if job.kind is None:
            continue
        first = found.setdefault(job.kind, job)
        if (job.gang, job.throughput) != (first.gang, first.throughput):
            rule = f"must have the gang and the throughput of job {first.id}, of the same kind"
            raise FieldError(f"jobs[{position}].kind", job.kind, rule)
    return found
