"""Define the instances and solutions of the heterogeneous problem.

Gangs share a cluster with several GPU types. A solution is a schedule in rounds or a table of time
shares.

Sources: Hadar (arXiv 2503.10918; IPDPS 2024) for schedules in rounds, Gavel (OSDI 2020) for time
shares. `formulations/heterogeneous/README.md` gives the mathematics.

Two jobs may share the same GPUs, each at its own rate. This is Gavel's space sharing (section 3.1,
and its public code). A row of its share matrix is then a single job or a pair of jobs with equal
numbers of workers. A job does the steps of all rows that contain it.
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
from lyra_opt.core.nearest_names import one_of
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
"""Most GPUs in a cluster, and so in a gang; algorithms may take time and memory for each GPU."""

MOST_ELAPSED_S = 1e12
"""About 30,000 years; with more elapsed time, floats would round the remaining time away."""


SHARE_PROOF_GAP = 1e-5
"""Relative proof gap for shares: the checker lets shares break a rule by 1e-6, and so do bounds."""


class Objective(Variant):
    """The objective of an instance.

    Objectives that count rounds are proved exactly; sums of utilities are proved within 1e-6.
    """

    UTILITY = "utility", "max", 1e-6
    """Find a schedule in rounds with maximum weighted utility (Hadar's offline problem)."""
    MAKESPAN = "makespan", "min"
    """Find a schedule in rounds whose last job completes earliest."""
    MEAN_JCT = "mean_jct", "min"
    """Find a schedule in rounds with minimum mean job completion time."""
    ROUND_PROGRESS = "round_progress", "max", 1e-6
    """Plan one round: maximise the weighted sum of the fraction of remaining steps done per job."""
    MAX_MIN_SHARE = "max_min_share", "max", SHARE_PROOF_GAP
    """Find time shares that maximise the least normalised throughput (Gavel's LAS policy)."""
    FINISH_TIME_FAIRNESS = "finish_time_fairness", "min", SHARE_PROOF_GAP
    """Find time shares that minimise the greatest ratio to the finish time on an equal part."""
    MAKESPAN_SHARE = "makespan_share", "min", SHARE_PROOF_GAP
    """Find time shares that minimise the time until all jobs complete."""
    THROUGHPUT = "throughput", "max", SHARE_PROOF_GAP
    """Find time shares that maximise the weighted steps per second."""
    COST = "cost", "max", SHARE_PROOF_GAP
    """Find time shares that maximise steps per second per unit of money and meet all deadlines."""


SCHEDULE_OBJECTIVES = frozenset({Objective.UTILITY, Objective.MAKESPAN, Objective.MEAN_JCT})
"""Objectives whose solution is a `RoundSchedule` of several rounds."""

SHARE_OBJECTIVES = frozenset(
    {
        Objective.MAX_MIN_SHARE,
        Objective.FINISH_TIME_FAIRNESS,
        Objective.MAKESPAN_SHARE,
        Objective.THROUGHPUT,
        Objective.COST,
    }
)
"""Objectives whose solution is a `TimeShares`."""

Placement = dict[str, dict[str, int]]
"""Number of GPUs by server id and GPU type; each number is at least 1."""


@declared()
class GpuType:
    """A GPU model, with its price."""

    name: str = key(Text(), "unique in the instance")
    price_per_hour: float = key(
        Quantity(above=True),
        "price of one GPU per hour; used by the objective cost only",
        default=1.0,
    )


@declared()
class GpuServer:
    """A server with GPUs of one or more types."""

    id: str = key(Text(), "unique in the instance")
    gpus: Mapping[str, int] = key(
        Named(Integer()), "number of GPUs by type, at least one in all; a type left out has 0"
    )

    def __post_init__(self) -> None:
        if 0 in self.gpus.values():
            kept = FrozenDict({name: count for name, count in self.gpus.items() if count})
            object.__setattr__(self, "gpus", kept)
        if not self.gpus:
            raise FieldError("gpus", {}, "must have at least one GPU")


class InnerPolicy(StrEnum):
    """The rule by which an entity, such as a team, divides its GPU time among its jobs."""

    FAIRNESS = "fairness"
    """Divide GPU time in proportion to the jobs' weights."""
    FIFO = "fifo"
    """Give the first job in file order all the time that it can use, then the next."""


@declared()
class Entity:
    """An owner of jobs, such as a team; water filling is fair among entities first."""

    name: str = key(Text(), "unique in the instance")
    weight: float = key(
        Quantity(above=True), "weight of the entity in the division of GPU time", default=1.0
    )
    policy: Field[InnerPolicy, str] = key(
        Choice(InnerPolicy),
        "how the entity divides time among its jobs: by weight, or by file order",
        default=InnerPolicy.FAIRNESS,
    )


_RATES = Named(Quantity())
_PLACEMENT = Named(Named(Integer(1), least=1))


@declared()
class GangJob:
    """A training job whose workers, one GPU each, run all together or not at all."""

    id: str = key(Text(), "unique in the instance")
    gang: int = key(Integer(1, MOST_GPUS), "number of workers, each on one GPU")
    steps: float = key(Quantity(above=True), "number of remaining training steps")
    throughput: Mapping[str, float] = key(
        _RATES,
        "steps per second of the whole gang on one server, by GPU type; 0 where it cannot run, "
        "above 0 for at least one type; a gang on several types runs at the speed of the slowest",
    )
    spread_throughput: Mapping[str, float] | None = key(
        OrNull(_RATES),
        "steps per second of the whole gang on several servers, by GPU type",
        default=None,
        shown="as throughput",
    )
    release_s: float = key(Quantity(), "time of submission", default=0.0)
    weight: float = key(Quantity(above=True), "weight of the job in the objective", default=1.0)
    utility: Field[Utility, Utility | Mapping[str, Any]] = key(
        OneOfTables((InverseJct, Deadline, UtilityTable)),
        "utility of completing the job, as a function of its JCT",
        default=InverseJct(),
        shown="inverse_jct with scale 1",
    )
    elapsed_s: float = key(
        Quantity(most=MOST_ELAPSED_S),
        "time since the job arrived, for finish_time_fairness and the deadlines of cost",
        default=0.0,
    )
    isolated_elapsed_s: float = key(
        Quantity(most=MOST_ELAPSED_S),
        "time that the same progress would have taken on an equal part of the cluster, for "
        "finish_time_fairness",
        default=0.0,
    )
    entity: str | None = key(
        OrNull(Text()),
        "name of its entity; must be set if the instance lists entities",
        default=None,
    )
    kind: str | None = key(
        OrNull(Text()),
        "label of its model and gang size, for packed: jobs with the same label have the same "
        "gang and throughput",
        default=None,
    )
    current: Mapping[str, Mapping[str, int]] = key(
        _PLACEMENT,
        "GPUs that the job holds when the first round begins, by server and type; either its "
        "whole gang or nothing",
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
        """Return the gang's steps per second on given GPU types, set by the slowest of them.

        Source: Hadar, the bottleneck rate of synchronous training.

        Parameters
        ----------
        gpu_types
            GPU types that the gang uses, at least one.
        is_spread
            Whether the gang is on several servers.
        """
        rates = self.throughput
        if is_spread and self.spread_throughput is not None:
            rates = self.spread_throughput
        return min(rates.get(name, 0.0) for name in gpu_types)

    def rate_of(self, placement: Mapping[str, Mapping[str, int]]) -> float:
        """Return the gang's steps per second on a placement."""
        types = {name for counts in placement.values() for name in counts}
        return self.rate(types, is_spread=len(placement) > 1)

    @property
    def best_rate(self) -> float:
        """Steps per second on the job's fastest GPU type, on one server or several."""
        rates = list(self.throughput.values())
        if self.spread_throughput is not None:
            rates += self.spread_throughput.values()
        return max(rates)


@declared()
class PackedRate:
    """The rates of jobs of one kind while a job of another kind shares their GPUs."""

    kind: str = key(Text(), "kind of the job whose rates these are")
    beside: str = key(
        Text(), "kind of the job that shares the GPUs, with the same gang; may be the same kind"
    )
    throughput: Mapping[str, float] = key(
        Named(Quantity()),
        "steps per second of the whole gang of the job in `kind`, by GPU type; 0 or left out "
        "where the two cannot share",
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
                "if": {"properties": {"objective": {"enum": sorted(map(str, SHARE_OBJECTIVES))}}},
                "then": {"properties": {"forking": {"const": False}}},
                "else": {"properties": {"packed": {"maxItems": 0}}},
            },
        ]
    },
)
class Instance(ProblemInstance["Solution"]):
    """A cluster, its jobs, and the objective by which GPUs are allocated."""

    problem = "heterogeneous"

    objective: VariantOf[Objective] = key(
        Choice(Objective),
        "the objective",
        default=Objective.MAX_MIN_SHARE,  # Gavel's default, and needs no horizon
        always_written=True,
    )
    round_s: float = key(Quantity(above=True), "length of a round, in seconds", default=360.0)
    horizon_rounds: int = key(
        Integer(1, MOST_ROUNDS),
        "number of rounds of a schedule, from time 0; 1 for round_progress. A job may run in "
        "rounds that begin at or after its release; time shares ignore this key",
        default=1,
    )
    restart_s: float = key(
        Quantity(),
        "part of the round that a job loses if it runs on GPUs other than its current ones; at "
        "most round_s; for round_progress only",
        default=0.0,
    )
    forking: bool = key(
        Flag(),
        "whether several copies of a job may run at once (HadarE); each copy is a whole gang on "
        "one server, at most one per server, and their steps add up; for schedules in rounds and "
        "round_progress",
        default=False,
    )
    gpu_types: TablesOf[GpuType] = key(
        ListOf(Table(GpuType), unique="name"), "GPU types of the cluster"
    )
    entities: TablesOf[Entity] = key(
        ListOf(Table(Entity), unique="name", least=0),
        "owners of jobs, for the solver water-filling; other solvers ignore them",
        default=(),
    )
    servers: TablesOf[GpuServer] = key(
        ListOf(Table(GpuServer), unique="id"), "servers of the cluster"
    )
    jobs: TablesOf[GangJob] = key(
        ListOf(Table(GangJob), unique="id"), "jobs that share the cluster"
    )
    packed: TablesOf[PackedRate] = key(
        ListOf(Table(PackedRate), least=0),
        "rates of jobs that share GPUs, for time shares only; two jobs may share a type if the "
        "rate of each beside the other is above 0",
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
        for position, server in enumerate(self.servers):
            for name in server.gpus:
                if name not in known:
                    rule = one_of(name, sorted(known), "the gpu_types")
                    raise FieldError(f"servers[{position}].gpus", name, rule)
        for position, job in enumerate(self.jobs):
            for table in ("throughput", "spread_throughput"):
                for name in getattr(job, table) or ():
                    if name not in known:
                        rule = one_of(name, sorted(known), "the gpu_types")
                        raise FieldError(f"jobs[{position}].{table}", name, rule)

    def _require_known_entities(self) -> None:
        known = [entity.name for entity in self.entities]
        for position, job in enumerate(self.jobs):
            if known and job.entity not in known:
                rule = one_of(job.entity, known, "the entities")
                raise FieldError(f"jobs[{position}].entity", job.entity, rule)

    def _require_current_to_fit(self) -> None:
        left = {server.id: dict(server.gpus) for server in self.servers}
        for position, job in enumerate(self.jobs):
            for server, types in job.current.items():
                field_name = f"jobs[{position}].current.{server}"
                if server not in left:
                    raise FieldError(
                        field_name, server, "must be the id of a server of the instance"
                    )
                for name, count in types.items():
                    free = left[server].get(name, 0)
                    if count > free:
                        rule = f"must be at most the {free} GPUs that other jobs leave free"
                        raise FieldError(f"{field_name}.{name}", count, rule)
                    left[server][name] = free - count

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
            # A share objective needs a GPU type with enough GPUs for the whole gang of each job.
            for position, job in enumerate(self.jobs):
                if not any(
                    job.throughput.get(name, 0.0) > 0 and job.gang <= count
                    for name, count in self.gpus_of_type.items()
                ):
                    rule = "must be above 0 for a type with enough GPUs for the gang"
                    raise FieldError(f"jobs[{position}].throughput", job.throughput, rule)

    @property
    def variant(self) -> Objective:
        """The objective of the instance."""
        return self.objective

    def to_networkx(self) -> networkx.Graph:
        """Return the graph of servers, GPU types and jobs.

        Nodes are ``("gpu_type", name)`` with ``price_per_hour`` and the ``gpus`` of the whole
        cluster, ``("server", id)``, and ``("job", id)`` with ``gang``, ``steps``, ``weight`` and
        ``release_s``. Edges join a server to its types (``gpus``). They join a job to the types on
        which it can run (``rate`` and ``spread_rate``, steps per second on one server and on
        several), and to the servers that it holds (``current``, GPUs by type). The graph has
        ``name`` and ``objective``. Complexity O(types * (servers + jobs) + GPUs held).
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
        """Number of GPUs of each type in the whole cluster, by name in file order."""
        return FrozenDict(
            {
                gpu_type.name: sum(server.gpus.get(gpu_type.name, 0) for server in self.servers)
                for gpu_type in self.gpu_types
            }
        )

    @cached_property
    def job_position(self) -> Mapping[str, int]:
        """File position of each job, by id."""
        return FrozenDict({job.id: position for position, job in enumerate(self.jobs)})

    @cached_property
    def server_of(self) -> Mapping[str, GpuServer]:
        """Each server, by id."""
        return FrozenDict({server.id: server for server in self.servers})

    @property
    def horizon_s(self) -> float:
        """The end of the last round, in seconds."""
        return self.horizon_rounds * self.round_s

    def first_round(self, job: GangJob) -> int:
        """Return the index of the first round that begins at or after the release of a job."""
        return math.ceil(Fraction(job.release_s) / Fraction(self.round_s))


@declared()
class RoundEntry:
    """The placement of one gang in one round."""

    job: str = key(
        Text(),
        "id of the job; with forking a job may have several entries in a round, one per copy",
    )
    round: int = key(Integer(), "index of the round, from 0")
    gpus: Placement = key(
        Named(Named(Integer(1), least=1), least=1),
        "GPUs that the gang uses, by server and type; in total the size of its gang",
    )


@declared(kw_only=False)
class RoundSchedule:
    """A schedule in rounds: the placement of each running gang in each round.

    A job completes at the end of the round in which it has done all its steps; further steps count
    for nothing. `check` verifies a schedule.
    """

    entries: TablesOf[RoundEntry] = key(
        ListOf(Table(RoundEntry), least=0),
        "placements of gangs, or of copies; sorted by round, then in file order",
        named="allocation",
    )


@declared(kw_only=False)
class TimeShares:
    """The fraction of time that each job runs on each GPU type; `check` verifies it."""

    shares: Mapping[str, Mapping[str, float]] = key(
        Named(Named(Number(most=MOST_GPUS, as_given=True))),
        "fraction of time, from 0 to 1, by job and GPU type; 0 if left out",
        named="allocation",
    )
    packed: Mapping[str, Mapping[str, Mapping[str, float]]] = key(
        Named(Named(Named(Number(most=MOST_GPUS, as_given=True)))),
        "fraction of time, from 0 to 1, that two jobs share GPUs, by first job, second job and "
        "GPU type; added to the shares in allocation",
        default={},
    )


Solution = RoundSchedule | TimeShares
"""`TimeShares` for `SHARE_OBJECTIVES`, `RoundSchedule` for the other objectives."""


class Pair(NamedTuple):
    """Two jobs that may share GPUs.

    Parameters
    ----------
    first, second
        File positions of the two jobs, ascending.
    rates
        Steps per second of each job beside the other, by GPU type. Only types are listed that hold
        the gang and on which both jobs run.
    """

    first: int
    second: int
    rates: tuple[Mapping[str, float], Mapping[str, float]]


def pairs_of(
    jobs: Sequence[GangJob], packed: Sequence[PackedRate], gpus_of_type: Mapping[str, int]
) -> list[Pair]:
    """Return the pairs of jobs that may share GPUs, in file order; O(kinds^2 types + pairs).

    Parameters
    ----------
    jobs, packed, gpus_of_type
        Fields of an instance.
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
    """Check that the rates of jobs that share GPUs are consistent with the instance's jobs.

    Raises
    ------
    FieldError
        If a rule is broken; the error names the field and the rule.
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
            rule = f"must be a kind with gang {gang}, the gang of kind {entry.kind}"
            raise FieldError(f"{path}.beside", entry.beside, rule)
        if (entry.kind, entry.beside) in seen:
            rule = f"must not occur twice with kind {entry.kind}"
            raise FieldError(f"{path}.beside", entry.beside, rule)
        seen.add((entry.kind, entry.beside))
        for name in entry.throughput:
            if name not in gpu_types:
                rule = one_of(name, sorted(gpu_types), "the gpu_types")
                raise FieldError(f"{path}.throughput", name, rule)


def _jobs_of_kinds(jobs: Sequence[GangJob]) -> dict[str, GangJob]:
    """Return the first job of each kind; jobs of a kind must have equal gangs and rates."""
    found: dict[str, GangJob] = {}
    for position, job in enumerate(jobs):
        if job.kind is None:
            continue
        first = found.setdefault(job.kind, job)
        if (job.gang, job.throughput) != (first.gang, first.throughput):
            rule = (
                f"must be the kind of jobs with equal gang and throughput; job {first.id} differs"
            )
            raise FieldError(f"jobs[{position}].kind", job.kind, rule)
    return found
