"""What a simulation runs on: servers with GPUs of one or more types, in racks, own or borrowed."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import declared, key
from lyra_opt.core.representations import html_of_object, short_repr
from lyra_opt.core.rules import Flag, require_integer, require_number, require_text
from lyra_opt.heterogeneous import instance as heterogeneous
from lyra_opt.network.links import TIER_OF_LABEL
from lyra_opt.simulation.topology import Rack, Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    import networkx

    from lyra_opt.network.links import LinkSet
    from lyra_opt.simulation.communication import CommunicationModel
    from lyra_opt.simulation.workload import Job

LEAST_RELATIVE_SPEED = 1e-6
"""As many times faster is most; beyond, it is a slip, and work is lost in rounding."""

LENT = " (lent)"
"""What ends the name of a type of borrowed GPUs that own servers have too."""

REPLICA_TOLERANCE = 1e-9
"""Part of a GPU that is taken for a rounding error of a relative speed."""

HOUR_S = 3600

DEFAULT_PRICE_PER_HOUR = 1.0
"""Of a GPU whose price nobody says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuType:
    """A kind of GPU.

    Parameters
    ----------
    name
        What it is called in results.
    relative_speed
        Work that one does in the time in which a reference GPU does 1, above 0; for jobs whose
        throughput on it was not measured.
    price_per_hour
        What one costs, above 0.
    source
        Where these figures are from, in words; empty where nobody says.
    """

    name: str
    relative_speed: float = 1.0
    price_per_hour: float = DEFAULT_PRICE_PER_HOUR
    source: str = ""

    def __post_init__(self) -> None:
        require_text("name", self.name)
        speed = require_number("relative_speed", self.relative_speed, minimum=0, above=True)
        if not LEAST_RELATIVE_SPEED <= speed <= 1 / LEAST_RELATIVE_SPEED:
            rule = f"must be from {LEAST_RELATIVE_SPEED:g} to {1 / LEAST_RELATIVE_SPEED:g}"
            raise FieldError("relative_speed", self.relative_speed, rule)
        object.__setattr__(self, "relative_speed", speed)
        price = require_number("price_per_hour", self.price_per_hour, minimum=0, above=True)
        object.__setattr__(self, "price_per_hour", price)
        if self.source != "":
            require_text("source", self.source)

    @property
    def replicas(self) -> int:
        """Fewest GPUs of this kind that together are at least as fast as a reference GPU."""
        return math.ceil(1 / self.relative_speed - REPLICA_TOLERANCE)

    @property
    def worker_speed(self) -> float:
        """Work that so many `replicas` do while a reference GPU does 1; at least 1."""
        return max(1.0, self.replicas * self.relative_speed)


TRAINING_GPU = GpuType(name="V100")
"""What training servers have in Lyra (EuroSys 2023), section 7.1."""

INFERENCE_GPU = GpuType(name="T4", relative_speed=1 / 3)
"""Three do what one V100 does; Lyra (EuroSys 2023), section 7.5."""


@declared()
class Server(heterogeneous.GpuServer):
    """A server with GPUs of one or more types, which may be borrowed."""

    is_lent: bool = key(
        Flag(), "whether it is an inference server, present only while on loan", default=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The GPUs of a type, own or borrowed: alike, but for where they are.

    Parameters
    ----------
    number
        Its place among the cluster's pools.
    gpu_type
        What they are.
    is_lent
        Whether they are there only while on loan.
    hosts
        The hosts that have them. A *host* is what a server has of one type; hosts are numbered pool
        by pool, and within a pool in the order of servers.
    gpus, servers
        GPUs of each host, and the position of its server.
    """

    number: int
    gpu_type: GpuType
    is_lent: bool
    hosts: range
    gpus: tuple[int, ...]
    servers: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Servers, own ones first.

    Parameters
    ----------
    name
        What it is called in results.
    gpu_types
        Of all servers, at least one, unique; for policies that go through types in order.
    servers
        At least one of its own, unique ids, own ones before those that are lent to it.
    topology
        The racks of all servers, in their order; None where racks do not matter.
    communication
        How well gangs compute across `topology`; None where distance costs nothing.
    network
        What the links are called in results.
    assumptions
        What is assumed of it, a sentence each; every result repeats them.

    Raises
    ------
    FieldError
        If a rule is broken; names the field, its value and the rule.
    """

    name: str
    gpu_types: tuple[GpuType, ...]
    servers: tuple[Server, ...]
    topology: Topology | None = None
    communication: CommunicationModel | None = None
    network: str = ""
    assumptions: tuple[str, ...] = ()

    __repr__ = short_repr
    _repr_html_ = html_of_object

    def __post_init__(self) -> None:
        require_text("name", self.name)
        for field_name in ("gpu_types", "servers"):
            if not getattr(self, field_name):
                raise FieldError(field_name, [], "must not be empty")
        known: set[str] = set()
        for position, gpu_type in enumerate(self.gpu_types):
            if gpu_type.name.casefold() in {name.casefold() for name in known}:
                rule = "must be unique, whatever the case of its letters"
                raise FieldError(f"gpu_types[{position}].name", gpu_type.name, rule)
            known.add(gpu_type.name)
        ids: set[str] = set()
        own_types: set[str] = set()
        has_lent = False
        for position, server in enumerate(self.servers):
            if server.id in ids:
                raise FieldError(f"servers[{position}].id", server.id, "must be unique")
            ids.add(server.id)
            for name in server.gpus:
                if name not in known:
                    rule = f"must be one of the gpu_types: {', '.join(sorted(known))}"
                    raise FieldError(f"servers[{position}].gpus", name, rule)
                if not server.is_lent:
                    own_types.add(name)
                elif name in own_types:
                    rule = "must be called otherwise than a type of own servers"
                    raise FieldError(f"servers[{position}].gpus", name, rule)
            if has_lent and not server.is_lent:
                rule = "must stand before all servers that are lent"
                raise FieldError(f"servers[{position}]", server.id, rule)
            has_lent = server.is_lent
        if self.servers[0].is_lent:
            raise FieldError("servers", [], "must have one that is not lent")
        if self.topology is not None:
            held = [sum(server.gpus.values()) for server in self.servers]
            if self.topology.gpus_of_machine.tolist() != held:
                rule = "must have the GPUs of the servers, machine by machine"
                raise FieldError("topology", self.topology.name, rule)
        elif self.communication is not None:
            raise FieldError("topology", None, "must be there for a model of communication")

    # What makes them.

    @classmethod
    def of_servers(
        cls,
        servers: int,
        *,
        gpus_per_server: int = 8,
        gpu: GpuType = TRAINING_GPU,
        servers_per_rack: int | None = None,
        inference_servers: int = 0,
        inference_gpus_per_server: int = 8,
        inference_gpu: GpuType = INFERENCE_GPU,
        name: str = "",
    ) -> Cluster:
        """Return equal training servers, and inference servers that can be borrowed.

        Parameters
        ----------
        servers, gpus_per_server, gpu
            Of the training cluster.
        servers_per_rack
            Of the training cluster, numbered rack by rack; None where racks do not matter. Distance
            costs nothing all the same: only how many racks a job spans is counted.
        inference_servers, inference_gpus_per_server
            Of the inference cluster; none by default.
        inference_gpu
            What its GPUs are, beside those of the training cluster, whose speed is 1.
        name
            None names it like ``443x8``.
        """
        require_integer("servers", servers, minimum=1)
        require_integer("gpus_per_server", gpus_per_server, minimum=1)
        topology = None
        if servers_per_rack is not None:
            require_integer("servers_per_rack", servers_per_rack, minimum=1)
            whole, rest = divmod(servers, servers_per_rack)
            racks = [servers_per_rack] * whole + [rest] * (rest > 0)
            topology = Topology(
                name="racks",
                racks=tuple(
                    Rack(machines=machines, gpus_per_machine=gpus_per_server) for machines in racks
                ),
            )
        cluster = cls(
            name=name or f"{servers}x{gpus_per_server}",
            gpu_types=(gpu,),
            servers=tuple(
                Server(id=f"training-{number}", gpus={gpu.name: gpus_per_server})
                for number in range(servers)
            ),
            topology=topology,
        )
        require_integer("inference_servers", inference_servers, minimum=0)
        require_integer("inference_gpus_per_server", inference_gpus_per_server, minimum=1)
        return cluster.with_lent(
            inference_servers, gpus_per_server=inference_gpus_per_server, gpu_type=inference_gpu
        )

    @classmethod
    def of_racks(
        cls,
        topology: Topology,
        communication: CommunicationModel,
        *,
        network: str = "",
        gpu_types: tuple[GpuType, ...] = (TRAINING_GPU,),
        assumptions: tuple[str, ...] = (),
    ) -> Cluster:
        """Return machines in racks, across which gangs compute the slower the farther.

        Parameters
        ----------
        topology, communication, network, assumptions
            See the class.
        gpu_types
            Of the machines: rack by rack in turn, so that a rack has one type.
        """
        names = topology.machine_names()
        racks = topology.rack_of_machine.tolist()
        return cls(
            name=topology.name,
            gpu_types=gpu_types,
            servers=tuple(
                Server(id=name, gpus={gpu_types[rack % len(gpu_types)].name: gpus})
                for name, rack, gpus in zip(
                    names, racks, topology.gpus_of_machine.tolist(), strict=True
                )
            ),
            topology=topology,
            communication=communication,
            network=network,
            assumptions=assumptions,
        )

    def with_lent(self, servers: int, *, gpus_per_server: int, gpu_type: GpuType) -> Cluster:
        """Return this cluster with inference servers beside it, which stand in a rack of their own.

        Parameters
        ----------
        servers, gpus_per_server
            Of the inference cluster.
        gpu_type
            What its GPUs are; one named like one of the cluster's own is told apart by its name.
        """
        if not servers:
            return self
        if any(found.name.casefold() == gpu_type.name.casefold() for found in self.gpu_types):
            # Rules that know types alone must not take borrowed GPUs for own ones.
            gpu_type = replace(gpu_type, name=gpu_type.name + LENT)
        gpu_types = (*self.gpu_types, gpu_type)
        topology = self.topology
        if topology is not None:
            rack = Rack(machines=servers, gpus_per_machine=gpus_per_server)
            topology = Topology(name=topology.name, racks=(*topology.racks, rack))
        lent = tuple(
            Server(id=f"inference-{number}", gpus={gpu_type.name: gpus_per_server}, is_lent=True)
            for number in range(servers)
        )
        return replace(self, gpu_types=gpu_types, servers=(*self.servers, *lent), topology=topology)

    def to_networkx(self) -> networkx.Graph:
        """Return the graph of servers, of the types of their GPUs and, where they count, of racks.

        Nodes are ``("gpu_type", name)`` with ``relative_speed``, ``price_per_hour``, ``gpus`` (of
        all servers) and ``is_lent``, and ``("server", id)`` with ``gpus`` and ``is_lent``; an edge
        between them has ``gpus``. With a topology there are ``("rack", number)`` and
        ``("network",)``, and edges with ``tier``, that of gangs that go across them: ``rack``
        between server and rack, ``network`` above; and where links are known with
        ``bandwidth_gb_per_s`` and ``latency_s``. The graph has ``name`` and ``network``. Complexity
        O(types * servers).
        """
        import networkx

        graph = networkx.Graph(name=self.name, network=self.network)
        for pool in self.pools:
            graph.add_node(
                ("gpu_type", pool.gpu_type.name),
                relative_speed=pool.gpu_type.relative_speed,
                price_per_hour=pool.gpu_type.price_per_hour,
                gpus=sum(pool.gpus),
                is_lent=pool.is_lent,
            )
        for server in self.servers:
            node = ("server", server.id)
            graph.add_node(node, gpus=sum(server.gpus.values()), is_lent=server.is_lent)
            for name, gpus in server.gpus.items():
                graph.add_edge(node, ("gpu_type", name), gpus=gpus)
        if self.topology is not None:
            names = {
                ("machine", place): ("server", each.id) for place, each in enumerate(self.servers)
            }
            tree = networkx.relabel_nodes(self.topology.to_networkx(), names)
            graph.add_edges_from(
                (*ends, {"tier": tier, **self._link_at(tier)})
                for *ends, tier in tree.edges(data="tier")
            )
        return graph

    def _link_at(self, tier: str) -> dict[str, float]:
        """Return the figures of the links of a tier, none where they are not known."""
        links: LinkSet | None = getattr(self.communication, "links", None)
        return {} if links is None else asdict(links.at(TIER_OF_LABEL[tier]))

    # What they come to.

    @cached_property
    def own_servers(self) -> tuple[Server, ...]:
        """Those that are always there."""
        return tuple(server for server in self.servers if not server.is_lent)

    @cached_property
    def inference_servers(self) -> int:
        """How many servers can be borrowed."""
        return len(self.servers) - len(self.own_servers)

    @cached_property
    def inference_gpus(self) -> int:
        """GPUs of the servers that can be borrowed."""
        return sum(sum(pool.gpus) for pool in self.pools if pool.is_lent)

    @cached_property
    def gpus(self) -> int:
        """GPUs that are always there."""
        return sum(self.gpus_of_type.values())

    @cached_property
    def gpus_of_type(self) -> dict[str, int]:
        """GPUs of each type that are always there, by name in the order of types."""
        return self._of_own_servers(sum)

    @cached_property
    def own_gpus(self) -> dict[str, int]:
        """The same of those types alone that own servers have."""
        return {name: count for name, count in self.gpus_of_type.items() if count}

    @cached_property
    def lent_type(self) -> GpuType | None:
        """What servers that can be borrowed have; None if there are none."""
        return next((pool.gpu_type for pool in self.pools if pool.is_lent), None)

    @cached_property
    def most_on_a_server(self) -> dict[str, int]:
        """GPUs of each type on the own server that has most of them."""
        return self._of_own_servers(max)

    def _of_own_servers(self, combine: Callable[[Iterable[int]], int]) -> dict[str, int]:
        return {
            gpu_type.name: combine(server.gpus.get(gpu_type.name, 0) for server in self.own_servers)
            for gpu_type in self.gpu_types
        }

    @cached_property
    def type_of(self) -> dict[str, GpuType]:
        """GPU types by name."""
        return {gpu_type.name: gpu_type for gpu_type in self.gpu_types}

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """The GPUs by type, own and borrowed ones apart; own ones first."""
        found: list[Pool] = []
        first = 0
        for is_lent in (False, True):
            for gpu_type in self.gpu_types:
                having = [
                    (server.gpus[gpu_type.name], place)
                    for place, server in enumerate(self.servers)
                    if server.is_lent == is_lent and gpu_type.name in server.gpus
                ]
                if having:
                    gpus, servers = zip(*having, strict=True)
                    hosts = range(first, first + len(having))
                    found.append(
                        Pool(
                            number=len(found),
                            gpu_type=gpu_type,
                            is_lent=is_lent,
                            hosts=hosts,
                            gpus=gpus,
                            servers=servers,
                        )
                    )
                    first = hosts.stop
        return tuple(found)

    @cached_property
    def price_per_s_of_pool(self) -> tuple[float, ...] | None:
        """What a second of a GPU costs, by pool; None where nobody says a price of any type."""
        prices = [pool.gpu_type.price_per_hour for pool in self.pools]
        if set(prices) == {DEFAULT_PRICE_PER_HOUR}:
            return None
        return tuple(price / HOUR_S for price in prices)

    @cached_property
    def host_of(self) -> dict[tuple[str, str], int]:
        """The host by server id and GPU type."""
        types = [pool.gpu_type.name for pool in self.pools for _ in pool.hosts]
        return {key: host for host, key in enumerate(zip(self.name_of_host, types, strict=True))}

    @cached_property
    def pool_of_host(self) -> list[int]:
        """Number of the pool of each host."""
        return [pool.number for pool in self.pools for _ in pool.hosts]

    @cached_property
    def server_of_host(self) -> list[int]:
        """Position of the server of each host."""
        return [server for pool in self.pools for server in pool.servers]

    @cached_property
    def name_of_host(self) -> list[str]:
        """Id of the server of each host."""
        return [self.servers[server].id for server in self.server_of_host]

    @cached_property
    def gpus_of_host(self) -> list[int]:
        """GPUs of each host."""
        return [gpus for pool in self.pools for gpus in pool.gpus]

    @cached_property
    def rack_of_host(self) -> list[int]:
        """Rack of each host; 0 where racks do not matter."""
        if self.topology is None:
            return [0] * len(self.server_of_host)
        racks = self.topology.rack_of_machine.tolist()
        return [racks[server] for server in self.server_of_host]

    # As the heterogeneous problem has them.

    @cached_property
    def problem_types(self) -> tuple[heterogeneous.GpuType, ...]:
        """All types, as instances of the heterogeneous problem have them."""
        return tuple(
            heterogeneous.GpuType(name=gpu_type.name, price_per_hour=gpu_type.price_per_hour)
            for gpu_type in self.gpu_types
        )

    def problem_servers(self, lent: Collection[int] = ()) -> tuple[heterogeneous.GpuServer, ...]:
        """Return the own servers and those of lent hosts, as such instances have them."""
        there = {self.server_of_host[host] for host in lent}
        return tuple(
            heterogeneous.GpuServer(id=server.id, gpus=server.gpus)
            for place, server in enumerate(self.servers)
            if not server.is_lent or place in there
        )

    def holds(self, job: Job) -> bool:
        """Whether the base demand of a job fits own GPUs of one type when nothing else runs.

        Of a type that it asks for, if it asks for any.
        """
        if not job.gpu_types:  # nearly always, and quick: asked of every job of a workload
            return self._largest_gang_of(job.gpus_per_worker) >= job.min_workers
        return any(
            self.most_workers(pool.number, job.gpus_per_worker) >= job.min_workers
            for pool in self.pools
            if not pool.is_lent and job.takes(pool.gpu_type.name)
        )

    def _largest_gang_of(self, gpus_per_worker: int) -> int:
        """Return the most workers of so many GPUs that own GPUs of one type hold; kept."""
        found = self._largest_gangs.get(gpus_per_worker)
        if found is None:
            found = self._largest_gangs[gpus_per_worker] = max(
                self.most_workers(pool.number, gpus_per_worker)
                for pool in self.pools
                if not pool.is_lent
            )
        return found

    @cached_property
    def _largest_gangs(self) -> dict[int, int]:
        return {}

    def most_workers(self, pool: int, gpus_per_worker: int) -> int:
        """Return how many workers of so many GPUs fit a pool; kept."""
        key = pool, gpus_per_worker
        found = self._most_workers_of.get(key)
        if found is None:
            found = self._most_workers_of[key] = sum(
                gpus // gpus_per_worker for gpus in self.pools[pool].gpus
            )
        return found

    @cached_property
    def _most_workers_of(self) -> dict[tuple[int, int], int]:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanPlan:
    """How many inference servers are lent over time, decided before the simulation.

    Parameters
    ----------
    interval_s
        Time between two decisions.
    on_loan
        Servers on loan from each decision on; the last one holds for ever.
    busy_share
        Share of the inference cluster's GPUs that serve in each interval; the last one holds for
        ever.
    """

    interval_s: float
    on_loan: tuple[int, ...]
    busy_share: tuple[float, ...]

    def __post_init__(self) -> None:
        require_number("interval_s", self.interval_s, minimum=0, above=True)
        for field_name in ("on_loan", "busy_share"):
            if not getattr(self, field_name):
                raise FieldError(field_name, [], "must not be empty")
        for position, servers in enumerate(self.on_loan):
            require_integer(f"on_loan[{position}]", servers, minimum=0)
        for position, share in enumerate(self.busy_share):
            if require_number(f"busy_share[{position}]", share, minimum=0) > 1:
                raise FieldError(f"busy_share[{position}]", share, "must be at most 1")
