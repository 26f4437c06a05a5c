"""The data classes of a reclaim instance and its solution; both are validated on construction."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import Table, declared, key
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.core.problem import ProblemInstance, Variant
from lyra_opt.core.rules import LARGEST_INTEGER, Choice, Flag, Integer, ListOf, Text, require_sum
from lyra_opt.reclaim.incidence import Incidence, ReclaimIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import networkx

    from lyra_opt.core.fields import TablesOf, TupleOf, VariantOf


class Semantics(Variant):
    """The rule that decides which jobs count as preempted: rigid or interchangeable."""

    RIGID = "rigid", "min"
    """A job is preempted when a server with one of its base workers is reclaimed."""
    INTERCHANGEABLE = "interchangeable", "min"
    """A job is preempted when fewer than ``min_workers`` of its workers remain."""


@declared()
class Server:
    """A server that is on loan from the inference cluster or belongs to the training cluster."""

    id: str = key(Text(), "server id, unique in the instance")
    gpus: int = key(Integer(1), "GPUs of the server; all servers together have at most 2^53 - 1")
    on_loan: bool = key(
        Flag(), "whether the server is on loan; only servers on loan can be reclaimed", default=True
    )


@declared(
    schema={
        "anyOf": [
            {"required": [name], "properties": {name: {"minimum": 1}}}
            for name in ("base", "flexible")
        ]
    }
)
class WorkerGroup:
    """The workers of one job on one server; a group has at least one worker."""

    server: str = key(Text(), "id of the server; a job has at most one group per server")
    base: int = key(Integer(), "number of base workers", default=0)
    flexible: int = key(
        Integer(),
        "number of workers beyond the base demand; the workers on a server fit into its GPUs",
        default=0,
    )

    def __post_init__(self) -> None:
        if self.workers == 0:
            raise FieldError("", self.workers, "must have at least one base or flexible worker")

    @property
    def workers(self) -> int:
        """Number of workers in the group, base and flexible."""
        return self.base + self.flexible


@declared()
class Job:
    """A running training job, with its workers on each server."""

    id: str = key(Text(), "job id, unique in the instance")
    weight: int = key(
        Integer(),
        "cost of preempting the job: 1 to count jobs, the lost GPU-seconds, or any other integer",
        default=1,
    )
    gpus_per_worker: int = key(Integer(1), "GPUs that each worker of the job holds", default=1)
    min_workers: int = key(
        Integer(),
        "workers that the job needs to survive; rigid: all its base workers; interchangeable: "
        "from 0 (the job is never preempted) to all its workers",
        default=None,
        computed=attrgetter("base_workers"),
        shown="all its base workers",
    )
    workers: TablesOf[WorkerGroup] = key(
        ListOf(Table(WorkerGroup), unique="server", parent="job"), "workers of the job by server"
    )

    def __post_init__(self) -> None:
        if self.min_workers > self.total_workers:
            raise FieldError(
                "min_workers",
                self.min_workers,
                f"must be at most the job's {self.total_workers} workers",
            )

    @property
    def base_workers(self) -> int:
        """Number of base workers of the job on all servers."""
        return sum(group.base for group in self.workers)

    @property
    def total_workers(self) -> int:
        """Number of workers of the job on all servers, base and flexible."""
        return sum(group.workers for group in self.workers)


@declared(slots=False)
class Instance(ProblemInstance["Solution"]):
    """Choose N_R servers on loan to reclaim so that the preempted jobs have the least weight.

    Source: Lyra (EuroSys 2023), section 4. The semantics and the servers that are not on loan are
    explicit in this class; the paper leaves them implicit.

    Notes
    -----
    `index` holds the instance as arrays. It is built once, in time linear in the worker groups up
    to a logarithm.
    """

    problem = "reclaim"

    semantics: VariantOf[Semantics] = key(
        Choice(Semantics),
        "when a job is preempted; rigid: when a server with one of its base workers is reclaimed; "
        "interchangeable: when fewer than min_workers of all its workers remain",
        default=Semantics.RIGID,  # as in the Lyra paper
        always_written=True,
    )
    reclaim_servers: int = key(
        Integer(), "N_R: number of servers on loan to reclaim, from 0 to all of them"
    )
    servers: TablesOf[Server] = key(
        ListOf(Table(Server), least=0, unique="id"), "the servers, in file order"
    )
    jobs: TablesOf[Job] = key(ListOf(Table(Job), least=0, unique="id"), "the jobs, in file order")
    index: ReclaimIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_sum(
            ((server.gpus, server.gpus) for server in self.servers),
            "servers[{}].gpus",
            most=LARGEST_INTEGER,
            rule=f"all servers up to this one must have at most {LARGEST_INTEGER} GPUs",
        )
        self._require_placements_to_fit()
        if self.semantics is Semantics.RIGID:
            self._require_min_workers_to_be_base()
        on_loan = sum(server.on_loan for server in self.servers)
        if self.reclaim_servers > on_loan:
            raise FieldError(
                "reclaim_servers",
                self.reclaim_servers,
                f"must be at most the {on_loan} servers on loan",
            )
        object.__setattr__(self, "index", self._build_index())

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        object.__setattr__(self, "index", self._build_index())

    def _require_placements_to_fit(self) -> None:
        free_gpus = {server.id: server.gpus for server in self.servers}
        for j, job in enumerate(self.jobs):
            for g, group in enumerate(job.workers):
                path = f"jobs[{j}].workers[{g}]"
                if group.server not in free_gpus:
                    raise FieldError(
                        f"{path}.server", group.server, "must be the id of a server of the instance"
                    )
                gpus = group.workers * job.gpus_per_worker
                free = free_gpus[group.server]
                if gpus > free:
                    kind = "base" if group.base >= group.flexible else "flexible"
                    raise FieldError(
                        f"{path}.{kind}",
                        getattr(group, kind),
                        f"the workers of job {job.id!r} on server {group.server!r} need {gpus} "
                        f"GPUs, but only {free} are free",
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
        """Build the array form of the instance in time O(worker groups log worker groups)."""
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
        """The semantics of the instance; the weight of preempted jobs is minimised under both."""
        return self.semantics

    def to_networkx(self) -> networkx.Graph:
        """Return the bipartite graph of servers and jobs, with one edge for each worker group.

        Nodes are ``("server", id)`` with the attributes ``gpus`` and ``on_loan``, and ``("job",
        id)`` with ``weight``, ``gpus_per_worker`` and ``min_workers``. The attribute ``bipartite``
        is 0 for servers and 1 for jobs. An edge has the attributes ``base``, ``flexible`` and
        ``gpus``, the GPUs that the group holds. The graph has the attributes ``name``,
        ``semantics`` and ``reclaim_servers``. Complexity O(servers + jobs + groups).
        """
        import networkx

        graph = networkx.Graph(
            name=self.name, semantics=str(self.semantics), reclaim_servers=self.reclaim_servers
        )
        for server in self.servers:
            node = ("server", server.id)
            graph.add_node(node, bipartite=0, gpus=server.gpus, on_loan=server.on_loan)
        for job in self.jobs:
            graph.add_node(
                ("job", job.id),
                bipartite=1,
                weight=job.weight,
                gpus_per_worker=job.gpus_per_worker,
                min_workers=job.min_workers,
            )
            for group in job.workers:
                graph.add_edge(
                    ("server", group.server),
                    ("job", job.id),
                    base=group.base,
                    flexible=group.flexible,
                    gpus=group.workers * job.gpus_per_worker,
                )
        return graph

    @cached_property
    def server_position(self) -> Mapping[str, int]:
        """The position of each server in the file, by server id."""
        return FrozenDict({server.id: position for position, server in enumerate(self.servers)})

    @cached_property
    def total_weight(self) -> int:
        """Sum of the weights of all jobs, an upper bound on the objective of any solution."""
        return sum(job.weight for job in self.jobs)


@declared(kw_only=False)
class Solution:
    """A solution of a reclaim instance, given by the ids of the servers to reclaim.

    `check` tells whether the choice is valid.
    """

    servers: TupleOf[str] = key(ListOf(Text(), least=0), "ids of the reclaimed servers")

    @classmethod
    def of_positions(cls, instance: Instance, positions: Iterable[int]) -> Solution:
        """Return the solution that reclaims the servers at these file positions, in file order."""
        return cls(tuple(instance.servers[position].id for position in sorted(positions)))

    def positions(self, instance: Instance) -> list[int]:
        """Return the file positions of the reclaimed servers; KeyError if a server is unknown."""
        return [instance.server_position[server] for server in self.servers]
