"""The heterogeneous problem: gangs on unlike GPUs, in rounds or as shares of time.

Source: Hadar (arXiv 2503.10918; IPDPS 2024) for schedules in rounds, Gavel (OSDI 2020) for shares
of time. See `formulations/heterogeneous/README.md` for the mathematics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import (
    require_choice,
    require_flag,
    require_integer,
    require_number,
    require_text,
)
from lyra_opt.core.variant import Variant
from lyra_opt.heterogeneous.utility import InverseJct, Utility, require_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
        Objective.THROUGHPUT,
        Objective.COST,
    }
)
"""Answered by `TimeShares`."""

Placement = dict[str, dict[str, int]]
"""GPUs by server and type; each number at least 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuType:
    """A kind of GPU.

    Parameters
    ----------
    name
        Unique in the instance.
    price_per_hour
        What one costs, above 0; only the objective ``cost`` asks for it.
    """

    name: str
    price_per_hour: float = 1.0

    def __post_init__(self) -> None:
        require_text("name", self.name)
        price = require_quantity("price_per_hour", self.price_per_hour, above=True)
        object.__setattr__(self, "price_per_hour", price)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuServer:
    """A server with GPUs of one or more kinds.

    Parameters
    ----------
    id
        Unique in the instance.
    gpus
        How many of each type, at least one GPU in all; types left out are not there.
    """

    id: str
    gpus: Mapping[str, int]

    def __post_init__(self) -> None:
        require_text("id", self.id)
        kept = {
            name: count
            for name, count in self.gpus.items()
            if require_integer(f"gpus.{name}", count, minimum=0)
        }
        if not kept:
            raise FieldError("gpus", dict(self.gpus), "must have at least one GPU")
        object.__setattr__(self, "gpus", kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class GangJob:
    """A training job whose workers, one GPU each, all run or none.

    Parameters
    ----------
    id
        Unique in the instance.
    gang
        Its workers, at least 1.
    steps
        Training steps that are left, above 0.
    throughput
        Steps a second of the whole gang on one server, by GPU type; 0 where it cannot run, above
        0 for one type at least. A gang on several types runs at the speed of the slowest.
    spread_throughput
        The same where the gang is on several servers; None where that makes no difference.
    release_s
        When it is submitted, at least 0.
    weight
        Above 0.
    utility
        What its completion is worth by its JCT.
    elapsed_s, isolated_elapsed_s
        For ``finish_time_fairness``: how long it has been there, and how long it would have been
        there for the same progress on an equal part of the cluster; at least 0.
    current
        GPUs that it holds as the first round begins; empty if it does not run.
    """

    id: str
    gang: int
    steps: float
    throughput: Mapping[str, float]
    spread_throughput: Mapping[str, float] | None = None
    release_s: float = 0.0
    weight: float = 1.0
    utility: Utility = field(default_factory=InverseJct)
    elapsed_s: float = 0.0
    isolated_elapsed_s: float = 0.0
    current: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_text("id", self.id)
        require_integer("gang", self.gang, minimum=1)
        if self.gang > MOST_GPUS:
            raise FieldError("gang", self.gang, f"must be at most {MOST_GPUS}")
        self._keep_float("steps", above=True)
        self._keep_float("release_s")
        self._keep_float("weight", above=True)
        self._keep_float("elapsed_s")
        self._keep_float("isolated_elapsed_s")
        for name in ("elapsed_s", "isolated_elapsed_s"):
            if getattr(self, name) > MOST_ELAPSED_S:
                raise FieldError(name, getattr(self, name), f"must be at most {MOST_ELAPSED_S:g}")
        self._keep_rates("throughput")
        if not any(self.throughput.values()):
            rule = "must be above 0 for at least one type"
            raise FieldError("throughput", dict(self.throughput), rule)
        if self.spread_throughput is not None:
            self._keep_rates("spread_throughput")
        for server, types in self.current.items():
            if not types:
                raise FieldError(f"current.{server}", types, "must not be empty")
            for name, count in types.items():
                require_integer(f"current.{server}.{name}", count, minimum=1)
        held = sum(sum(types.values()) for types in self.current.values())
        if held not in (0, self.gang):
            rule = f"must be {self.gang} GPUs in all, the job's gang, or none"
            raise FieldError("current", self.current, rule)

    def _keep_float(self, name: str, *, above: bool = False) -> None:
        object.__setattr__(self, name, require_quantity(name, getattr(self, name), above=above))

    def _keep_rates(self, name: str) -> None:
        rates = {
            gpu_type: require_quantity(f"{name}.{gpu_type}", rate)
            for gpu_type, rate in getattr(self, name).items()
        }
        object.__setattr__(self, name, rates)

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


@dataclass(frozen=True, kw_only=True)
class HeterogeneousInstance:
    """Which GPUs each gang gets, round by round or as shares of time.

    Parameters
    ----------
    name
        Its name, used to match solutions.
    objective
        What is optimised.
    gpu_types, servers, jobs
        In file order; at least one of each.
    round_s
        Length of a round, above 0.
    horizon_rounds
        Rounds of a schedule, from time 0; 1 for ``round_progress``. A job may run in rounds that
        begin at or after its release. Shares of time know no horizon.
    restart_s
        Part of a round that is lost to a job that runs on other GPUs than `GangJob.current`, at
        most `round_s`; for ``round_progress`` alone.
    forking
        Whether copies of a job may run at once (HadarE), each a whole gang on one server, no two
        on the same; their steps add up. For schedules in rounds and ``round_progress``.

    Raises
    ------
    FieldError
        If any rule is broken; names the field, its value and the rule.
    """

    name: str
    objective: Objective
    gpu_types: tuple[GpuType, ...]
    servers: tuple[GpuServer, ...]
    jobs: tuple[GangJob, ...]
    round_s: float = 360.0
    horizon_rounds: int = 1
    restart_s: float = 0.0
    forking: bool = False

    def __post_init__(self) -> None:
        require_text("name", self.name)
        objective = require_choice("objective", self.objective, [str(o) for o in Objective])
        object.__setattr__(self, "objective", Objective(objective))
        for name in ("gpu_types", "servers", "jobs"):
            if not getattr(self, name):
                raise FieldError(name, [], "must have at least one entry")
        round_s = require_quantity("round_s", self.round_s, above=True)
        object.__setattr__(self, "round_s", round_s)
        require_integer("horizon_rounds", self.horizon_rounds, minimum=1)
        if self.horizon_rounds > MOST_ROUNDS:
            raise FieldError(
                "horizon_rounds", self.horizon_rounds, f"must be at most {MOST_ROUNDS}"
            )
        restart_s = require_quantity("restart_s", self.restart_s)
        object.__setattr__(self, "restart_s", restart_s)
        if restart_s > round_s:
            raise FieldError("restart_s", restart_s, f"must be at most round_s, {round_s:g}")
        require_flag("forking", self.forking)
        self._require_unique("gpu_types", [gpu_type.name for gpu_type in self.gpu_types], "name")
        self._require_unique("servers", [server.id for server in self.servers], "id")
        self._require_unique("jobs", [job.id for job in self.jobs], "id")
        self._require_known_types()
        self._require_few_gpus()
        self._require_current_to_fit()
        self._require_what_the_objective_needs()

    def _require_unique(self, name: str, values: list[str], key: str) -> None:
        seen: set[str] = set()
        for position, value in enumerate(values):
            if value in seen:
                raise FieldError(f"{name}[{position}].{key}", value, "must be unique")
            seen.add(value)

    def _require_few_gpus(self) -> None:
        gpus = 0
        for position, server in enumerate(self.servers):
            gpus += sum(server.gpus.values())
            if gpus > MOST_GPUS:
                rule = f"all servers up to this one must have at most {MOST_GPUS} GPUs"
                raise FieldError(f"servers[{position}].gpus", dict(server.gpus), rule)

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
                    raise FieldError(f"jobs[{position}].throughput", dict(job.throughput), rule)

    @property
    def variant(self) -> Objective:
        """The objective, with its sense."""
        return self.objective

    @cached_property
    def gpus_of_type(self) -> dict[str, int]:
        """GPUs of each type in the whole cluster, by name in file order."""
        return {
            gpu_type.name: sum(server.gpus.get(gpu_type.name, 0) for server in self.servers)
            for gpu_type in self.gpu_types
        }

    @cached_property
    def job_position(self) -> dict[str, int]:
        """File position of each job by id."""
        return {job.id: position for position, job in enumerate(self.jobs)}

    @cached_property
    def server_of(self) -> dict[str, GpuServer]:
        """Each server by id."""
        return {server.id: server for server in self.servers}

    @property
    def horizon_s(self) -> float:
        """When the last round ends."""
        return self.horizon_rounds * self.round_s

    def first_round(self, job: GangJob) -> int:
        """Return the first round that begins at or after the release of a job."""
        return math.ceil(Fraction(job.release_s) / Fraction(self.round_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEntry:
    """A gang in a round.

    Parameters
    ----------
    job
        Its id; with forking it may occur in a round once for each copy.
    round
        From 0.
    gpus
        Where it is placed, as many GPUs as its gang.
    """

    job: str
    round: int
    gpus: Placement

    def __post_init__(self) -> None:
        require_text("job", self.job)
        require_integer("round", self.round, minimum=0)
        if not self.gpus:
            raise FieldError("gpus", self.gpus, "must not be empty")
        for server, types in self.gpus.items():
            require_text("gpus", server)
            if not types:
                raise FieldError(f"gpus.{server}", types, "must not be empty")
            for name, count in types.items():
                require_integer(f"gpus.{server}.{name}", count, minimum=1)


@dataclass(frozen=True, slots=True)
class RoundSchedule:
    """Which gangs run where in each round; `check` judges it.

    A job is complete at the end of the round in which it has done all its steps. What it would do
    beyond them counts for nothing.
    """

    entries: tuple[RoundEntry, ...]


@dataclass(frozen=True, slots=True)
class TimeShares:
    """The share of time in which each job runs on each type; `check` judges it.

    Parameters
    ----------
    shares
        By job and type, each from 0 to 1; what is left out is 0.
    """

    shares: Mapping[str, Mapping[str, float]]

    def __post_init__(self) -> None:
        for job, by_type in self.shares.items():
            require_text("shares", job)
            for name, share in by_type.items():
                require_number(f"shares.{job}.{name}", share, minimum=0)


Solution = RoundSchedule | TimeShares
"""`TimeShares` for `SHARE_OBJECTIVES`, a schedule for the other objectives."""
