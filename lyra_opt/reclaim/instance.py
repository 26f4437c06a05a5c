"""The data of a reclaim instance and of a solution, validated on construction."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import (
    LARGEST_INTEGER,
    require_choice,
    require_flag,
    require_integer,
    require_text,
)
from lyra_opt.core.variant import Variant
from lyra_opt.reclaim.incidence import Incidence, ReclaimIndex

if TYPE_CHECKING:
    from collections.abc import Iterable


class Semantics(Variant):
    """When a job counts as preempted; the variants of the problem."""

    RIGID = "rigid", "min"
    """When a server with one of its base workers is reclaimed; flexible workers are scaled in."""
    INTERCHANGEABLE = "interchangeable", "min"
    """When fewer than ``min_workers`` of all its workers remain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server of the inference cluster or, not on loan, of the training cluster.

    Parameters
    ----------
    id
        Its name, unique in the instance.
    gpus
        Its GPUs, at least 1.
    on_loan
        Whether it may be chosen. One that is not keeps its workers, which still count.
    """

    id: str
    gpus: int
    on_loan: bool = True

    def __post_init__(self) -> None:
        require_text("id", self.id)
        require_integer("gpus", self.gpus, minimum=1)
        require_flag("on_loan", self.on_loan)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGroup:
    """The workers of one job on one server: `base` and `flexible` ones, at least one in all."""

    server: str
    base: int = 0
    flexible: int = 0

    def __post_init__(self) -> None:
        require_text("server", self.server)
        require_integer("base", self.base, minimum=0)
        require_integer("flexible", self.flexible, minimum=0)
        if self.workers == 0:
            raise FieldError("", self.workers, "must have at least one base or flexible worker")

    @property
    def workers(self) -> int:
        """All workers of the group."""
        return self.base + self.flexible


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A training job that runs.

    Parameters
    ----------
    id
        Its name, unique in the instance.
    workers
        Where its workers are, at least one group, a server at most once.
    weight
        What its preemption costs: 1 to count jobs, or lost GPU-seconds, or the user's own.
    gpus_per_worker
        GPUs that each of its workers holds, at least 1.
    min_workers
        How many workers it needs to survive (interchangeable semantics); by default its base
        workers, which is also the only value that the rigid semantics allows.
    """

    id: str
    workers: tuple[WorkerGroup, ...]
    weight: int = 1
    gpus_per_worker: int = 1
    min_workers: int = None  # type: ignore[assignment]  # __post_init__ puts the default

    def __post_init__(self) -> None:
        require_text("id", self.id)
        require_integer("weight", self.weight, minimum=0)
        require_integer("gpus_per_worker", self.gpus_per_worker, minimum=1)
        if not self.workers:
            raise FieldError("workers", [], "must have at least one entry")
        seen = set()
        for position, group in enumerate(self.workers):
            if group.server in seen:
                raise FieldError(
                    f"workers[{position}].server",
                    group.server,
                    "must be named at most once in a job",
                )
            seen.add(group.server)
        if self.min_workers is None:
            object.__setattr__(self, "min_workers", self.base_workers)
        else:
            require_integer("min_workers", self.min_workers, minimum=0)
        if self.min_workers > self.total_workers:
            raise FieldError(
                "min_workers",
                self.min_workers,
                f"must be at most the job's {self.total_workers} workers",
            )

    @property
    def base_workers(self) -> int:
        """All base workers."""
        return sum(group.base for group in self.workers)

    @property
    def total_workers(self) -> int:
        """All workers, base and flexible."""
        return sum(group.workers for group in self.workers)


@dataclass(frozen=True, kw_only=True)
class ReclaimInstance:
    """Which `reclaim_servers` servers on loan to give back, at least weight of preempted jobs.

    Source: Lyra (EuroSys 2023), section 4; with both semantics and off-loan servers made
    explicit.

    Parameters
    ----------
    name
        Its name, used to match solutions.
    semantics
        When a job counts as preempted.
    reclaim_servers
        N_R: how many servers on loan to choose, from 0 to all of them.
    servers
        The servers, in file order.
    jobs
        The jobs, in file order.

    Raises
    ------
    FieldError
        If any rule is broken; names the field, its value and the rule.

    Notes
    -----
    `index` holds the same data as arrays, built once, in time linear in the worker groups.
    """

    name: str
    semantics: Semantics
    reclaim_servers: int
    servers: tuple[Server, ...]
    jobs: tuple[Job, ...]
    index: ReclaimIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_text("name", self.name)
        semantics = require_choice("semantics", self.semantics, [str(s) for s in Semantics])
        object.__setattr__(self, "semantics", Semantics(semantics))
        _require_unique_ids("servers", [server.id for server in self.servers])
        _require_unique_ids("jobs", [job.id for job in self.jobs])
        self._require_sums_to_be_exact()
        self._require_placements_to_fit()
        if self.semantics is Semantics.RIGID:
            self._require_min_workers_to_be_base()
        require_integer("reclaim_servers", self.reclaim_servers, minimum=0)
        on_loan = sum(server.on_loan for server in self.servers)
        if self.reclaim_servers > on_loan:
            raise FieldError(
                "reclaim_servers",
                self.reclaim_servers,
                f"must be at most the {on_loan} servers on loan",
            )
        object.__setattr__(self, "index", self._build_index())

    def _require_sums_to_be_exact(self) -> None:
        """All GPUs together, and so all workers, are counted in 64 bits."""
        gpus = 0
        for s, server in enumerate(self.servers):
            gpus += server.gpus
            if gpus > LARGEST_INTEGER:
                raise FieldError(
                    f"servers[{s}].gpus",
                    server.gpus,
                    f"all servers up to this one must have at most {LARGEST_INTEGER} GPUs",
                )

    def _require_placements_to_fit(self) -> None:
        free_gpus = {server.id: server.gpus for server in self.servers}
        for j, job in enumerate(self.jobs):
            for g, group in enumerate(job.workers):
                path = f"jobs[{j}].workers[{g}]"
                if group.server not in free_gpus:
                    raise FieldError(f"{path}.server", group.server, "must be the id of a server")
                gpus = group.workers * job.gpus_per_worker
                free = free_gpus[group.server]
                if gpus > free:
                    raise FieldError(
                        path,
                        gpus,
                        f"the GPUs of job {job.id!r} on server {group.server!r} must be at most "
                        f"the {free} left there",
                    )
                free_gpus[group.server] = free - gpus

    def _require_min_workers_to_be_base(self) -> None:
        for j, job in enumerate(self.jobs):
            if job.min_workers != job.base_workers:
                raise FieldError(
                    f"jobs[{j}].min_workers",
                    job.min_workers,
                    f"must equal the job's {job.base_workers} base workers in a rigid instance",
                )

    def _build_index(self) -> ReclaimIndex:
        """Build the arrays, in time O(worker groups log worker groups)."""
        position = self.server_position
        is_on_loan = [int(server.on_loan) for server in self.servers]
        rigid = self.semantics is Semantics.RIGID
        losses, base, gpus = [], [], []
        for j, job in enumerate(self.jobs):
            for group in job.workers:
                server = position[group.server]
                group_gpus = group.workers * job.gpus_per_worker
                gpus.append((j, server, group_gpus))
                if group.base:
                    base.append((j, server, group_gpus))
                if is_on_loan[server] and (group.base or not rigid):
                    losses.append((j, server, 1 if rigid else group.workers))
        slack = [0 if rigid else job.total_workers - job.min_workers for job in self.jobs]
        shape = len(self.jobs), len(self.servers)
        return ReclaimIndex(
            on_loan=np.flatnonzero(is_on_loan).astype(np.int64),
            is_on_loan=np.array(is_on_loan, dtype=np.int64),
            weight=np.array([job.weight for job in self.jobs], dtype=np.int64),
            losses=Incidence.of_entries(*shape, losses),
            slack=np.array(slack, dtype=np.int64),
            base=Incidence.of_entries(*shape, base),
            gpus=Incidence.of_entries(*shape, gpus),
        )

    @property
    def variant(self) -> Semantics:
        """The semantics; it has the sense of the objective."""
        return self.semantics

    @cached_property
    def server_position(self) -> dict[str, int]:
        """File position of each server by id."""
        return {server.id: position for position, server in enumerate(self.servers)}

    @cached_property
    def total_weight(self) -> int:
        """Weight of all jobs, the largest possible objective."""
        return sum(job.weight for job in self.jobs)


def _require_unique_ids(field_name: str, ids: list[str]) -> None:
    seen = set()
    for position, identifier in enumerate(ids):
        if identifier in seen:
            raise FieldError(f"{field_name}[{position}].id", identifier, "must be unique")
        seen.add(identifier)


@dataclass(frozen=True, slots=True)
class ReclaimSolution:
    """The ids of the chosen servers; `check` says whether they are a valid choice."""

    servers: tuple[str, ...]

    def __post_init__(self) -> None:
        for position, identifier in enumerate(self.servers):
            require_text(f"servers[{position}]", identifier)

    @classmethod
    def of_positions(cls, instance: ReclaimInstance, positions: Iterable[int]) -> ReclaimSolution:
        """Return the solution that chooses the servers at `positions`, in file order."""
        return cls(tuple(instance.servers[position].id for position in sorted(positions)))

    def positions(self, instance: ReclaimInstance) -> list[int]:
        """Return the file positions of the chosen servers; KeyError for one not in `instance`."""
        return [instance.server_position[server] for server in self.servers]
